//! `understudy plugins enable` and `disable`: written into the configuration file, and nothing else in it is touched.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use serde_json::json;

use super::super::{Exit, output};
use super::cold::ConfigFile;
use crate::config::{ServerConfig, edit, report};

pub(super) fn run(ids: &[String], on: bool, config: &ConfigFile, json: bool) -> anyhow::Result<Exit> {
    let file = config.file.canonicalize();
    let file = file.with_context(|| format!("{} cannot be read", config.file.display()))?;
    let before = fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
    let mut after = before.clone();
    for id in ids {
        after = edit::switch(&after, id, on)?;
    }
    let env = |name: &str| std::env::var(name).ok();
    ServerConfig::parse(&after, &env).map_err(|error| {
        anyhow::anyhow!(
            "nothing was written. {}",
            report::for_people("the file", &error).trim_end()
        )
    })?;
    let written = after != before;
    if written {
        replace(&file, &after).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    say(ids, on, &file, written, json);
    Ok(Exit::Fine)
}

fn say(ids: &[String], on: bool, file: &Path, written: bool, json: bool) {
    let (switched, name) = (if on { "on" } else { "off" }, file.display());
    match (json, written) {
        (true, _) => output::say_json(&json!({
            "ok": true, "pluginIds": ids, "enabled": on, "file": name.to_string(), "written": written,
        })),
        (false, true) => output::say(&format!(
            "{} switched {switched} in {name}. A gateway takes it when it reads its configuration again.",
            ids.join(", ")
        )),
        (false, false) => output::say(&format!("{name} says so already.")),
    }
}

/// In one step, with the rights of the file that was there: whoever reads meanwhile sees the old one or the new one.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = file.with_file_name(name);
    // it may hold secrets: nobody else reads it before it has the rights of the old one
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
    let written = opened
        .and_then(|mut opened| opened.write_all(text.as_bytes()))
        .and_then(|()| fs::set_permissions(&new, fs::metadata(file)?.permissions()))
        .and_then(|()| fs::rename(&new, file));
    if written.is_err() {
        let _nothing_is_left = fs::remove_file(&new);
    }
    written
}
