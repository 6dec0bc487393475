//! OM4 ocean data for Burn.
