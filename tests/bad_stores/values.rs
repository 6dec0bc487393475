//! What nobody asked for.

use crate::{NX, NY, ROWS, TestStore, says, strict};
use burn_om4::store::Store;
use burn_om4::{Channel, ErrorKind};
use om4_test_support::stores::{Bend, read_all};

#[test]
fn what_nobody_asked_for_may_be_anything() {
    let store = TestStore::good(false);
    let dims = ["time", "y", "x"];
    let shape = [ROWS as u64, NY as u64, NX as u64];
    store
        .writer
        .document("packed", &dims, &shape, &shape, "int16", &Bend::default());
    store.writer.document(
        "v_edge",
        &["time", "yq", "xq"],
        &[6, 4, 5],
        &[1, 4, 5],
        "float32",
        &Bend::default(),
    );
    assert!(store.open().is_err());
    let zos: Channel = "zos".parse().unwrap();
    let only = strict().with_channels([zos.clone()]);
    let open = Store::open(store.root(), &only).unwrap();
    assert_eq!(open.channels(), std::slice::from_ref(&zos));
    read_all(&open).unwrap();
    let both = strict().with_channels([zos, "so_3".parse().unwrap()]);
    let e = Store::open(store.root(), &both).unwrap_err();
    says(
        &e,
        ErrorKind::Metadata,
        &["so_3", "[packed, time, v_edge, zos]"],
    );
}
