//! The modules of a crate, with what each defines, imports and names. Code for tests and for
//! documentation is left out.

use crate::source::Source;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item, ItemMod, ItemUse, Macro, Meta, UseTree, Visibility};

/// `a::b::C` as its segments.
pub(crate) type Segments = Vec<String>;

/// A `use`, one for every leaf of its tree.
pub(crate) struct Import {
    pub path: Segments,
    /// The name that it brings; none for a glob.
    pub name: Option<String>,
    /// Whether others see the name, too.
    pub reexport: bool,
}

#[derive(Default)]
pub(crate) struct Module {
    pub file: String,
    /// Items that are defined here.
    pub items: BTreeSet<String>,
    pub imports: Vec<Import>,
    /// Paths in code, macros and attributes, of at least two segments.
    pub paths: Vec<Segments>,
}

/// Modules by their path from the crate's root.
pub(crate) type Modules = BTreeMap<Segments, Module>;

/// Parses the files of one crate.
pub(crate) fn modules(sources: &[Source]) -> Modules {
    let mut collector = Collector::default();
    for source in sources {
        let file = syn::parse_file(&source.text);
        let file = file.unwrap_or_else(|e| panic!("{}: {e}", source.path));
        collector.file.clone_from(&source.path);
        collector.at = module_path(&source.path);
        collector.items(&file.items);
        for attribute in &file.attrs {
            collector.visit_attribute(attribute);
        }
    }
    let tests = collector.tests;
    let mut modules = collector.modules;
    modules.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
    modules
}

/// `store/read.rs` is `store::read`, `store/mod.rs` is `store`, `lib.rs` and `main.rs` are the root.
fn module_path(file: &str) -> Segments {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let mut path: Segments = stem.split('/').map(str::to_owned).collect();
    if matches!(
        path.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        path.pop();
    }
    path
}

#[derive(Default)]
struct Collector {
    file: String,
    at: Segments,
    modules: Modules,
    /// Modules that are left out, with all below them.
    tests: Vec<Segments>,
}

impl Collector {
    fn module(&mut self) -> &mut Module {
        let module = self.modules.entry(self.at.clone()).or_default();
        module.file.clone_from(&self.file);
        module
    }

    fn items(&mut self, items: &[Item]) {
        self.module();
        for item in items {
            if let Some(name) = name(item) {
                self.module().items.insert(name);
            }
            self.visit_item(item);
        }
    }

    fn use_tree(&mut self, tree: &UseTree, mut prefix: Segments, reexport: bool) {
        let mut leaf = |path: Segments, name| {
            self.module().imports.push(Import {
                path,
                name,
                reexport,
            });
        };
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.use_tree(&path.tree, prefix, reexport);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(tree, prefix.clone(), reexport);
                }
            }
            UseTree::Glob(_) => leaf(prefix, None),
            UseTree::Name(name) if name.ident == "self" => {
                let name = prefix.last().cloned();
                leaf(prefix, name);
            }
            UseTree::Name(name) => {
                prefix.push(name.ident.to_string());
                leaf(prefix, Some(name.ident.to_string()));
            }
            UseTree::Rename(rename) => {
                if rename.ident != "self" {
                    prefix.push(rename.ident.to_string());
                }
                leaf(prefix, Some(rename.rename.to_string()));
            }
        }
    }

    /// `ident (:: ident)+` wherever it stands.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Segments::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.path(std::mem::take(&mut path));
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.path(std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.path(path);
    }

    fn path(&mut self, path: Segments) {
        if path.len() > 1 {
            self.module().paths.push(path);
        }
    }
}

impl<'a> Visit<'a> for Collector {
    fn visit_item(&mut self, item: &'a Item) {
        if !attributes(item).iter().any(left_out) {
            visit::visit_item(self, item);
        } else if let Item::Mod(module) = item {
            let mut path = self.at.clone();
            path.push(module.ident.to_string());
            self.tests.push(path);
        }
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        let attributes = match item {
            ImplItem::Fn(item) => &item.attrs[..],
            ImplItem::Const(item) => &item.attrs,
            _ => &[],
        };
        if !attributes.iter().any(left_out) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        if let Some((_, items)) = &module.content {
            self.at.push(module.ident.to_string());
            self.items(items);
            self.at.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        let reexport = !matches!(item.vis, Visibility::Inherited);
        self.use_tree(&item.tree, Segments::new(), reexport);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments = path.segments.iter().map(|s| s.ident.to_string());
        self.path(segments.collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'a Macro) {
        self.tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }

    fn visit_attribute(&mut self, attribute: &'a Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
        visit::visit_attribute(self, attribute);
    }
}

/// Whether code with this attribute is compiled for tests or documentation alone.
fn left_out(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else {
        return false;
    };
    let condition = list.tokens.to_string();
    list.path.is_ident("cfg")
        && (matches!(condition.as_str(), "test" | "doctest" | "doc")
            || condition.replace(' ', "").starts_with("all(test,"))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(i) => &i.attrs,
        Item::Enum(i) => &i.attrs,
        Item::ExternCrate(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::ForeignMod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Macro(i) => &i.attrs,
        Item::Mod(i) => &i.attrs,
        Item::Static(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Trait(i) => &i.attrs,
        Item::TraitAlias(i) => &i.attrs,
        Item::Type(i) => &i.attrs,
        Item::Union(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

fn name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(i) => &i.ident,
        Item::Enum(i) => &i.ident,
        Item::Fn(i) => &i.sig.ident,
        Item::Macro(i) => i.ident.as_ref()?,
        Item::Static(i) => &i.ident,
        Item::Struct(i) => &i.ident,
        Item::Trait(i) => &i.ident,
        Item::Type(i) => &i.ident,
        Item::Union(i) => &i.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
