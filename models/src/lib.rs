//! The Samudra ocean emulators as Burn modules.
