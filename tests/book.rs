//! The book holds together: every chapter's code is run, and links inside the repository lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Targets of all links and pictures, code left out.
fn links(text: &str) -> Vec<String> {
    let prose = text.split("```").step_by(2);
    let after = prose.flat_map(|part| part.split("](").skip(1).collect::<Vec<_>>());
    after
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .collect()
}

/// The anchors that mdBook gives to headings.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|l| l.starts_with('#'));
    headings
        .map(|l| l.trim_start_matches('#').trim().to_lowercase())
        .map(|l| {
            l.chars()
                .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
                .collect()
        })
        .map(|l: String| l.replace(' ', "-"))
        .collect()
}

#[test]
fn the_code_of_every_chapter_is_run() {
    let src = root().join("book/src");
    let summary = read(&src.join("SUMMARY.md"));
    let hook = read(&root().join("src/book.rs"));
    let mut listed = links(&summary);
    assert!(listed.len() >= 6, "{listed:?}");
    for chapter in &listed {
        let included = format!("\"../book/src/{chapter}\"");
        assert!(hook.contains(&included), "{chapter} is not in src/book.rs");
    }
    let files = fs::read_dir(&src).unwrap().map(|e| e.unwrap().file_name());
    let mut chapters: Vec<String> = files
        .map(|f| f.into_string().unwrap())
        .filter(|f| f.ends_with(".md") && f != "SUMMARY.md")
        .collect();
    listed.sort();
    chapters.sort();
    assert_eq!(chapters, listed, "chapters and SUMMARY.md");
}

#[test]
fn links_lead_somewhere() {
    let mut pages = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    for entry in fs::read_dir(root().join("book/src")).unwrap() {
        pages.push(entry.unwrap().path());
    }
    pages.retain(|p| p.extension().is_some_and(|e| e == "md"));
    let mut followed = 0;
    for page in &pages {
        let text = read(page);
        let followable = |l: &&String| !l.contains("://");
        for link in links(&text).iter().filter(followable) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let place = format!("{link} in {}", page.display());
            assert!(target.exists(), "{place}: no such file");
            if !anchor.is_empty() {
                assert!(
                    anchors(&read(&target)).contains(&anchor.to_owned()),
                    "{place}"
                );
            }
            followed += 1;
        }
    }
    assert!(followed >= 20, "only {followed} links found");
}
