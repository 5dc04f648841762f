//! Which crate may know which: messages ← providers, plugins ← actors ← bin ← tests.

use crate::workspace::File;
use crate::{Violation, Workspace};

/// For each folder, the crates of ours that it may depend on.
const OURS: [(&str, &[&str]); 6] = [
    ("messages", &[]),
    ("providers", &["understudy-messages"]),
    ("plugins", &["understudy-messages"]),
    (
        "actors",
        &["understudy-messages", "understudy-providers", "understudy-plugins"],
    ),
    (
        "bin",
        &[
            "understudy-messages",
            "understudy-providers",
            "understudy-plugins",
            "understudy-actors",
        ],
    ),
    (
        "tests",
        &[
            "understudy-messages",
            "understudy-providers",
            "understudy-plugins",
            "understudy-actors",
            "understudy",
        ],
    ),
];

/// Crates of others that only some folders may name.
const OTHERS: [(&str, &[&str]); 7] = [
    ("actix", &["messages", "actors", "bin", "tests"]),
    ("actix-web", &["bin", "tests"]),
    ("anyhow", &["bin"]),
    ("metrics", &["actors"]),
    ("metrics-exporter-prometheus", &["actors"]),
    ("reqwest", &["providers", "plugins", "bin", "tests"]),
    ("serde-saphyr", &["bin", "tests"]),
];

pub(crate) fn check(workspace: &Workspace) -> Vec<Violation> {
    workspace.files.iter().flat_map(check_manifest).collect()
}

fn check_manifest(file: &File) -> Vec<Violation> {
    let Some(folder) = file.path.strip_suffix("/Cargo.toml") else {
        return Vec::new();
    };
    let Some((_, allowed)) = OURS.iter().find(|(name, _)| *name == folder) else {
        let message = "this crate has no row in the table of allowed edges";
        return vec![Violation::new(&file.path, 1, message)];
    };
    dependencies(&file.text)
        .into_iter()
        .filter(|(_, name)| !may_depend(folder, allowed, name))
        .map(|(line, name)| {
            let message = format!("{folder} must not depend on {name}");
            Violation::new(&file.path, line, message)
        })
        .collect()
}

fn may_depend(folder: &str, allowed: &[&str], name: &str) -> bool {
    if name == "understudy" || name.starts_with("understudy-") {
        return allowed.contains(&name);
    }
    let rule = OTHERS.iter().find(|(other, _)| *other == name);
    rule.is_none_or(|(_, folders)| folders.contains(&folder))
}

/// Line and name of every dependency of a manifest: plain, dev, build and by target, under its true name.
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_table = false;
    for (line, text) in (1..).zip(manifest.lines()) {
        let text = text.split('#').next().unwrap_or_default().trim();
        if let Some(header) = text.strip_prefix('[') {
            let header = header.trim_matches(['[', ']']);
            let (table, name) = header.rsplit_once('.').unwrap_or(("", header));
            in_table = name.ends_with("dependencies");
            if table.ends_with("dependencies") {
                found.push((line, unquoted(name)));
            }
        } else if in_table && let Some((key, value)) = text.split_once('=') {
            let name = key.split('.').next().unwrap_or(key);
            found.push((line, renamed(value).unwrap_or_else(|| unquoted(name))));
        } else if let Some((key, value)) = text.split_once('=')
            && key.trim() == "package"
        {
            found.push((line, unquoted(value)));
        }
    }
    found
}

/// The name after `package =` in an inline table.
fn renamed(value: &str) -> Option<String> {
    let (_, rest) = value.split_once("package")?;
    let name = rest.split('"').nth(1)?;
    Some(name.to_owned())
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches(['"', '\'']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(folder: &str, manifest: &str) -> Vec<String> {
        check(&Workspace::sample(&format!("{folder}/Cargo.toml"), manifest))
            .into_iter()
            .map(|violation| violation.message)
            .collect()
    }

    #[test]
    fn an_edge_against_the_stream_is_refused_in_every_table() {
        for table in [
            "[dependencies]",
            "[dev-dependencies]",
            "[build-dependencies]",
            "[target.'cfg(loom)'.dependencies]",
        ] {
            for entry in [
                "understudy-actors.workspace = true",
                "understudy-actors = { path = \"../actors\" }",
                "other = { package = \"understudy-actors\", path = \"../actors\" }",
            ] {
                assert_eq!(
                    violations("providers", &format!("{table}\n{entry}\n")),
                    ["providers must not depend on understudy-actors"],
                    "{table} {entry}"
                );
            }
        }
        let own_table = "[dependencies.understudy-actors]\npath = \"../actors\"\n";
        assert_eq!(violations("providers", own_table).len(), 1);
        let renamed = "[dependencies.other]\npackage = \"understudy-actors\"\n";
        assert_eq!(violations("providers", renamed).len(), 1);
    }

    #[test]
    fn crates_of_others_stay_where_they_belong() {
        for (name, folders) in OTHERS {
            for (folder, _) in OURS {
                let manifest = format!("[dependencies]\n{name}.workspace = true\n");
                let refused = !violations(folder, &manifest).is_empty();
                assert_eq!(refused, !folders.contains(&folder), "{folder} {name}");
            }
        }
    }

    #[test]
    fn allowed_edges_and_other_tables_pass() {
        let manifest = "[package]\nname = \"understudy-actors\"\n[features]\nunderstudy = []\n[dependencies]\n# understudy\nunderstudy-providers.workspace = true\nserde = \"1\"\n";
        assert!(violations("actors", manifest).is_empty());
    }

    #[test]
    fn a_crate_without_a_row_is_refused() {
        assert_eq!(violations("shortcuts", "").len(), 1);
    }
}
