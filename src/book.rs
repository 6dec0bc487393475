//! The code of the book and the README, compiled and run as doc tests.

macro_rules! chapters {
    ($($name:ident: $path:literal;)*) => {$(
        #[doc = include_str!($path)]
        mod $name {}
    )*};
}

chapters! {
    readme: "../README.md";
    introduction: "../book/src/introduction.md";
    demo: "../book/src/demo.md";
    own_store: "../book/src/own-store.md";
    make_a_store: "../book/src/make-a-store.md";
    tool: "../book/src/tool.md";
    what_can_go_wrong: "../book/src/what-can-go-wrong.md";
    batch: "../book/src/batch.md";
    order: "../book/src/order.md";
    resume: "../book/src/resume.md";
    picks: "../book/src/picks.md";
    device: "../book/src/device.md";
    faults: "../book/src/faults.md";
    speed: "../book/src/speed.md";
    models: "../book/src/models.md";
    correctness: "../book/src/correctness.md";
}
