//! Faults planted in small crates: each check finds its own, and leaves its neighbours alone.

use crate::graph::{Edges, Graph, circles, folders};
use crate::limits::{self, Word, files_with};
use crate::source::Source;
use crate::{Row, foreign, not_allowed, row, runs_up, stale};

/// `device` may use `plan`, and Burn; `plan` nothing.
const TABLE: &[Row] = &[row("plan", &[], &[]), row("device", &["plan"], &["burn"])];

fn sources(files: &[(&str, &str)]) -> Vec<Source> {
    files
        .iter()
        .map(|(path, text)| Source::new(path, text))
        .collect()
}

/// A crate of two folders, with these lines in `plan/batch.rs`.
fn graph(planted: &str) -> Graph {
    let external = ["burn", "zarrs"].map(str::to_owned);
    Graph::new(
        &sources(&[
            ("lib.rs", "mod device; mod plan; pub use device::Lane;"),
            (
                "plan/mod.rs",
                "pub(crate) mod batch; pub use batch::BatchPlan;",
            ),
            ("plan/batch.rs", planted),
            (
                "device/mod.rs",
                "pub(crate) mod kernel; pub(crate) mod lane; pub use lane::{Lane, launch};",
            ),
            (
                "device/lane.rs",
                "use crate::plan::BatchPlan; use burn::tensor::Tensor;
                 pub struct Lane(BatchPlan, Tensor); pub fn launch() {} generate!(Made);",
            ),
            ("device/kernel.rs", "pub const SIZE: usize = 1;"),
        ]),
        &external,
    )
}

fn ups(planted: &str) -> Vec<String> {
    not_allowed(TABLE, &graph(planted).files)
}

const PLAN: &str = "pub struct BatchPlan;";
const UP: [&str; 1] = ["plan/batch.rs uses device/lane.rs"];

#[test]
fn a_house_in_order_passes() {
    let graph = graph(PLAN);
    assert_eq!(not_allowed(TABLE, &graph.files), [""; 0]);
    assert_eq!(foreign(TABLE, &graph.crates), [""; 0]);
    assert_eq!(stale(TABLE, &graph), [""; 0]);
    assert_eq!(
        graph.files["device/lane.rs"].len(),
        1,
        "through a re-export"
    );
    assert!(circles(&graph.files).is_empty() && circles(&folders(&graph.files)).is_empty());
}

#[test]
fn an_import_that_runs_up_is_found_wherever_it_stands() {
    for planted in [
        "use crate::device::lane::Lane;",
        "use crate::{device::{lane::{Lane as Other}}};",
        "use super::super::device::lane::launch;",
        "pub(crate) use crate::device::lane::Lane;",
        "fn f() { crate::device::lane::launch() }",
        "fn f() { use crate::device::lane::Lane; }",
        "fn f(lane: &crate::device::lane::Lane) {}",
        "struct S { of: Vec<Option<crate::device::lane::Lane>> }",
        "impl From<crate::device::lane::Lane> for S {}",
        "mod inside { use super::super::super::device::lane::Lane; }",
        "#[cfg(feature = \"cube\")] use crate::device::lane::Lane;",
        "use crate::device::lane; fn f() { lane::launch() }",
        // Made by a macro: taken for an item of the module before it.
        "use crate::device::lane::Made;",
    ] {
        assert_eq!(ups(planted), UP, "{planted}");
    }
}

#[test]
fn an_import_through_a_reexport_is_found() {
    for planted in [
        "use crate::Lane;",
        "use crate::device::Lane;",
        "fn f() { crate::device::launch() }",
        "use crate::device::*; fn f() -> Option<device::Lane> { None }",
        "use crate as all; fn f() { all::device::launch() }",
    ] {
        let found = ups(planted);
        let led = found
            .iter()
            .any(|f| f == UP[0] || f == "plan/batch.rs uses device/mod.rs");
        assert!(led, "{planted}: {found:?}");
    }
    assert_eq!(ups("use crate::Lane;"), UP);
    assert_eq!(ups("fn f() { crate::device::launch() }"), UP);
}

#[test]
fn an_import_inside_a_macro_or_an_attribute_is_found() {
    for planted in [
        "fn f() { assert!(matches!(x, crate::device::lane::Lane(_))) }",
        "macro_rules! m { () => { crate::device::Lane::new() } }",
        "#[serde(with(crate::device::lane::Lane))] struct S;",
        "fn f() { println!(\"{}\", { [crate::device::launch()] }) }",
    ] {
        assert_eq!(ups(planted), UP, "{planted}");
    }
}

#[test]
fn tests_and_text_may_name_everything() {
    for planted in [
        "#[cfg(test)] mod tests { use crate::device::lane::Lane; }",
        "#[cfg(test)] use crate::device::lane::Lane;",
        "#[cfg(doc)] use crate::device::lane::Lane;",
        "#[cfg(all(test, unix))] fn f() { crate::device::launch() }",
        "impl S { #[cfg(test)] fn f() { crate::device::launch() } }",
        "/// [`Lane`](crate::device::lane::Lane)\nfn f() {}",
        "fn f() -> &'static str { \"crate::device::lane::Lane\" }",
    ] {
        assert_eq!(ups(planted), [""; 0], "{planted}");
    }
    // What is compiled for others, too, is no test.
    let planted = "#[cfg(any(test, feature = \"x\"))] use crate::device::lane::Lane;";
    assert_eq!(ups(planted), UP);
}

#[test]
fn a_file_of_tests_is_left_out() {
    let graph = Graph::new(
        &sources(&[
            ("plan/mod.rs", "mod batch; #[cfg(test)] mod tests;"),
            ("plan/batch.rs", PLAN),
            ("plan/tests.rs", "use crate::device::Lane;"),
            ("device.rs", "pub struct Lane;"),
        ]),
        &[],
    );
    assert!(graph.files.is_empty(), "{:?}", graph.files);
}

#[test]
fn a_foreign_crate_is_found() {
    let plan = |planted| foreign(TABLE, &graph(planted).crates);
    for planted in [
        "use burn::tensor::Tensor;",
        "fn f() { burn::tensor::launch() }",
        "fn f(t: ::burn::Tensor) {}",
        "#[burn::cube] fn f() {}",
        "fn f() { println!(\"{}\", burn::x()) }",
    ] {
        assert_eq!(
            plan(planted),
            ["plan/batch.rs uses the crate burn"],
            "{planted}"
        );
    }
    // A module of the same name, and text.
    assert_eq!(
        plan("mod burn { pub fn x() {} } fn f() { burn::x() }"),
        [""; 0]
    );
    assert_eq!(plan("fn f() { g(\"burn::x\") }"), [""; 0]);
    assert_eq!(
        plan("use zarrs::array::Array;"),
        ["plan/batch.rs uses the crate zarrs"]
    );
}

#[test]
fn circles_are_found_between_files_and_between_folders() {
    let planted = graph("use crate::device::Lane; pub struct BatchPlan;");
    assert_eq!(
        circles(&planted.files),
        [["device/lane.rs", "plan/batch.rs"]]
    );
    assert_eq!(circles(&folders(&planted.files)), [["device", "plan"]]);

    // Folders in a circle whose files are in none.
    let planted = graph("use crate::device::kernel::SIZE; pub struct BatchPlan;");
    assert!(circles(&planted.files).is_empty());
    assert_eq!(circles(&folders(&planted.files)), [["device", "plan"]]);

    let long = [("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"), ("c", "e")];
    let mut edges = Edges::new();
    for (from, to) in long {
        edges
            .entry(from.to_owned())
            .or_default()
            .insert(to.to_owned());
    }
    assert_eq!(circles(&edges), [["a", "b", "c"]]);
}

#[test]
fn a_table_that_runs_up_or_allows_too_much_is_found() {
    let up = [row("plan", &["device"], &[]), row("device", &["plan"], &[])];
    assert_eq!(runs_up(&up), ["plan may use device"]);
    assert_eq!(
        runs_up(&[row("plan", &["plan"], &[])]),
        ["plan may use plan"]
    );
    assert_eq!(
        runs_up(&[row("plan", &["nothing"], &[])]),
        ["plan may use nothing"]
    );
    let wide = [
        row("error", &[], &[]),
        row("device", &["plan", "error"], &["burn", "zarrs"]),
    ];
    let found = stale(&wide, &graph(PLAN));
    assert_eq!(
        found,
        [
            "device does not use error",
            "device does not use the crate zarrs"
        ]
    );
    // A folder without a row may use nothing.
    let found = not_allowed(&[], &graph(PLAN).files);
    assert_eq!(found, ["device/lane.rs uses plan/batch.rs"]);
}

#[test]
fn long_files_and_functions_are_found() {
    let lines = |n: usize| "    x();\n".repeat(n);
    let of = |text: String| sources(&[("a/b.rs", &text)]);
    assert_eq!(limits::long_files(&of("//\n".repeat(600))), [""; 0]);
    assert_eq!(
        limits::long_files(&of("//\n".repeat(601))),
        ["a/b.rs: 601 lines"]
    );
    let function = |n| {
        of(format!(
            "fn short() {{}}\nfn f<T>(\n    x: T,\n) {{\n{}}}\n",
            lines(n)
        ))
    };
    assert_eq!(limits::long_functions(&function(76)), [""; 0]);
    let found = limits::long_functions(&function(77));
    assert_eq!(found, ["a/b.rs:2: `f` has 81 lines"]);
    let method = of(format!(
        "impl S {{\n    pub(crate) const fn m(&self) {{\n{}    }}\n}}\n",
        lines(79)
    ));
    assert_eq!(
        limits::long_functions(&method),
        ["a/b.rs:2: `m` has 81 lines"]
    );
    let declared = of(format!(
        "trait T {{\n    fn f(\n        x: X,\n    );\n    {}}}\n",
        lines(90)
    ));
    assert_eq!(limits::long_functions(&declared), [""; 0]);
}

#[test]
fn a_crowded_root_and_a_file_named_as_its_folder_are_found() {
    let file = |n: usize| Source::new(&format!("f{n}.rs"), "");
    assert_eq!(
        limits::too_many_in_the_root(&(0..12).map(file).collect::<Vec<_>>()),
        [""; 0]
    );
    assert_eq!(
        limits::too_many_in_the_root(&(0..13).map(file).collect::<Vec<_>>()).len(),
        1
    );
    let named = sources(&[
        ("store/store.rs", ""),
        ("store/mod.rs", ""),
        ("store.rs", ""),
    ]);
    assert_eq!(limits::named_as_their_folder(&named), ["store/store.rs"]);
}

#[test]
fn words_are_found_in_code_and_not_in_text() {
    let with = |text: &str, word| !files_with(&sources(&[("a.rs", text)]), word).is_empty();
    for (text, word) in [
        ("fn f() { unsafe { g() } }", Word::Unsafe),
        ("unsafe impl Send for S {}", Word::Unsafe),
        ("m! { fn f() { unsafe { g() } } }", Word::Unsafe),
        ("#[path = \"b.rs\"] mod b;", Word::PathAttribute),
        ("mod c { #[path = \"b.rs\"] mod b; }", Word::PathAttribute),
        ("#![allow(dead_code)]", Word::DeadCode),
        ("#[expect(unused, dead_code)] fn f() {}", Word::DeadCode),
        (
            "#[cfg_attr(unix, allow(dead_code))] fn f() {}",
            Word::DeadCode,
        ),
        ("fn f() { unreachable!() }", Word::Unreachable),
        (
            "fn f() { g(|| std::unreachable!(\"never\")) }",
            Word::Unreachable,
        ),
    ] {
        assert!(with(text, word), "{text}");
    }
    let text = "/// unsafe unreachable! #[allow(dead_code)]\n#[doc = \"#[path = x]\"]\n\
                #[allow(unused)] fn f(path: &str) { g(\"unsafe\"); path = dead_code; }";
    for word in [
        Word::Unsafe,
        Word::PathAttribute,
        Word::DeadCode,
        Word::Unreachable,
    ] {
        assert!(!with(text, word), "{word:?}");
    }
}
