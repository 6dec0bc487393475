//! Which file uses which, and which external crates: every path led to the file that defines its item,
//! through all re-exports.

use crate::modules::{Import, Module, Modules, Segments, modules};
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// Who uses whom: files, or folders.
pub(crate) type Edges = BTreeMap<String, BTreeSet<String>>;

pub(crate) struct Graph {
    /// File to files.
    pub files: Edges,
    /// File to external crates.
    pub crates: Edges,
}

/// Where a path leads.
enum Target {
    File(String),
    Crate(String),
    /// To nothing that is known: a prelude's name, a type parameter, what a macro defines.
    Unknown,
}

/// More re-exports of re-exports than this are a circle.
const DEPTH: usize = 16;

impl Graph {
    /// Of the files of one crate, which can name these external crates.
    pub(crate) fn new(sources: &[Source], external: &[String]) -> Self {
        let modules = modules(sources);
        let resolver = Resolver {
            modules: &modules,
            external,
        };
        let mut graph = Self {
            files: Edges::new(),
            crates: Edges::new(),
        };
        for (at, module) in &modules {
            for import in &module.imports {
                // A folder's list of what it shows is no use of it.
                let shown = import.reexport && module.file.ends_with("mod.rs");
                match resolver.lead(at, &import.path) {
                    Target::File(file) if shown && within(&file, &module.file) => {}
                    target => graph.add(&module.file, target),
                }
            }
            for path in &module.paths {
                graph.add(&module.file, resolver.lead(at, path));
            }
        }
        graph
    }

    fn add(&mut self, from: &str, target: Target) {
        let (edges, to) = match target {
            Target::File(file) if file != from => (&mut self.files, file),
            Target::Crate(name) => (&mut self.crates, name),
            _ => return,
        };
        edges.entry(from.to_owned()).or_default().insert(to);
    }
}

/// Whether `file` lies in the folder whose `mod.rs` this is.
fn within(file: &str, mod_file: &str) -> bool {
    mod_file
        .strip_suffix("mod.rs")
        .is_some_and(|folder| file.starts_with(folder))
}

struct Resolver<'a> {
    modules: &'a Modules,
    external: &'a [String],
}

impl Resolver<'_> {
    /// A path as it stands in module `at`. What a macro defines is taken for an item of the module that
    /// is named before it.
    fn lead(&self, at: &[String], path: &[String]) -> Target {
        let target = self.resolve(at, path, 0);
        match (target, path.split_last()) {
            (Target::Unknown, Some((_, before))) if path[0] == "crate" || path[0] == "super" => {
                self.lead(at, before)
            }
            (target, _) => target,
        }
    }

    /// A path as it stands in module `at`.
    fn resolve(&self, at: &[String], path: &[String], depth: usize) -> Target {
        let Some((first, rest)) = path.split_first() else {
            return Target::Unknown;
        };
        match first.as_str() {
            "crate" => return self.follow(&[], rest, depth),
            "self" => return self.follow(at, rest, depth),
            "super" => {
                let Some((_, mut above)) = at.split_last() else {
                    return Target::Unknown;
                };
                let mut rest = rest;
                while let [first, after @ ..] = rest
                    && first == "super"
                    && let Some((_, higher)) = above.split_last()
                {
                    (above, rest) = (higher, after);
                }
                return self.follow(above, rest, depth);
            }
            _ => {}
        }
        match self.follow(at, path, depth) {
            Target::Unknown if self.external.contains(first) => Target::Crate(first.clone()),
            target => target,
        }
    }

    /// `path` inside module `at`.
    fn follow(&self, at: &[String], path: &[String], depth: usize) -> Target {
        let Some(module) = self.modules.get(at) else {
            return Target::Unknown;
        };
        let Some((first, rest)) = path.split_first() else {
            return Target::File(module.file.clone());
        };
        if depth > DEPTH {
            return Target::Unknown;
        }
        let child: Segments = [at, std::slice::from_ref(first)].concat();
        if self.modules.contains_key(&child) {
            return self.follow(&child, rest, depth);
        }
        if module.items.contains(first) {
            return Target::File(module.file.clone());
        }
        if let Some(import) = self.import(module, first) {
            return self.resolve(at, &[&import.path, rest].concat(), depth + 1);
        }
        for glob in module.imports.iter().filter(|i| i.name.is_none()) {
            let target = self.resolve(at, &[&glob.path, path].concat(), depth + 1);
            // A glob of another crate says nothing about the names it brings.
            if let Target::File(_) = target {
                return target;
            }
        }
        Target::Unknown
    }

    /// What brings this name. `use log;` brings a crate of the same name and leads nowhere else.
    fn import<'a>(&self, module: &'a Module, name: &str) -> Option<&'a Import> {
        let brings = |i: &&Import| i.name.as_deref() == Some(name) && i.path[0] != name;
        module.imports.iter().find(brings)
    }
}

/// The same edges between folders. A file directly in `src` is a folder of its own.
pub(crate) fn folders(files: &Edges) -> Edges {
    let mut edges = Edges::new();
    for (from, uses) in files {
        for to in uses {
            let (from, to) = (folder(from), folder(to));
            if from != to {
                edges
                    .entry(from.to_owned())
                    .or_default()
                    .insert(to.to_owned());
            }
        }
    }
    edges
}

/// `store` of `store/read.rs`, `error` of `error.rs`.
pub(crate) fn folder(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    first.strip_suffix(".rs").unwrap_or(first)
}

/// Every set of nodes that reach each other.
pub(crate) fn circles(edges: &Edges) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = edges
        .keys()
        .map(|node| (node.as_str(), reachable(edges, node)))
        .collect();
    let mut circles = BTreeSet::new();
    for (node, reach) in &reached {
        let back = |other: &&&str| reached.get(**other).is_some_and(|r| r.contains(node));
        let circle: BTreeSet<&str> = reach.iter().filter(back).copied().collect();
        if circle.contains(node) {
            circles.insert(circle.into_iter().map(str::to_owned).collect::<Vec<_>>());
        }
    }
    circles.into_iter().collect()
}

fn reachable<'a>(edges: &'a Edges, from: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut next: Vec<&str> = vec![from];
    while let Some(node) = next.pop() {
        for to in edges.get(node).into_iter().flatten() {
            if seen.insert(to.as_str()) {
                next.push(to);
            }
        }
    }
    seen
}
