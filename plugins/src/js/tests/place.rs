//! What a plugin finds in place: modules, files, paths, and what is refused.

use std::os::unix::fs::symlink;

use super::*;

/// Loads an entry with `imports` whose first handler answers the value of `code`.
async fn load_entry(
    imports: &str,
    code: &str,
    options: impl FnOnce(&mut JsOptions, &Folder),
) -> Result<Loaded, String> {
    let entry = format!(
        "{imports}\nexport default {{ register(api) {{\n{}\n}} }};",
        telling(code)
    );
    try_load(&entry, options).await
}

async fn tell(imports: &str, code: &str, options: impl FnOnce(&mut JsOptions, &Folder)) -> String {
    let loaded = load_entry(imports, code, options).await.expect("a sound plugin");
    match loaded.ask().await {
        Ok(Value::String(text)) => text,
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn imports_stay_in_the_folder_and_what_is_built_in_is_named() {
    let files = |_: &mut JsOptions, folder: &Folder| {
        folder.write(
            "plugin/lib/deep.js",
            "import { one } from '../one.mjs'; export default one + 1;",
        );
        folder.write("plugin/one.mjs", "export const one = 1;");
        folder.write("plugin-evil/x.js", "export default 'evil';");
        symlink(folder.0.join("plugin-evil/x.js"), folder.0.join("plugin/link.js")).expect("a link");
    };
    assert_eq!(tell("import two from './lib/deep.js';", "two", files).await, "2");
    assert_eq!(
        tell("", "await import('./one.mjs').then((m) => m.one)", files).await,
        "1"
    );
    let sdk = "import { definePluginEntry as a } from 'openclaw/plugin-sdk'; import b from 'openclaw/plugin-sdk/plugin-entry';";
    assert_eq!(tell(sdk, "a(1) + b(2)", files).await, "3");
    for (import, word) in [
        ("'../plugin-evil/x.js'", "outside"),
        ("'./link.js'", "outside"),
        ("'/etc/hostname'", "is not here"),
        ("'./none.js'", "no such file"),
        ("'node:child_process'", "node:fs"),
        ("'left-pad'", "is not here"),
        ("'understudy:prelude'", "is not here"),
    ] {
        let refused = load_entry(&format!("import x from {import};"), "1", files).await;
        let words = refused.map(|_| ()).expect_err("refused");
        assert!(words.contains(word), "{import}: {words}");
        let caught = tell("", &format!("await import({import}).catch((e) => e.message)"), files).await;
        assert!(caught.contains(word), "{import}: {caught}");
    }
    let outside = try_load("", |options, folder| {
        files(options, folder);
        options.entry = "../plugin-evil/x.js".to_owned();
    });
    assert!(outside.await.map(|_| ()).expect_err("refused").contains("outside"));
}

#[tokio::test]
async fn files_are_read_below_the_roots_and_nowhere_else() {
    let files = |options: &mut JsOptions, folder: &Folder| {
        folder.write("ws/a.md", "grüße");
        folder.write("ws/sub/b.md", "b");
        folder.write("ws-evil/secret", "secret");
        symlink(folder.0.join("ws-evil"), folder.0.join("ws/out")).expect("a link");
        symlink(folder.0.join("ws/sub"), folder.0.join("ws/in")).expect("a link");
        options.roots = vec![folder.0.join("ws"), folder.0.join("later")];
        options.settings = json!({ "at": path(&folder.0) });
    };
    let imports =
        "import fs, { promises, readFileSync, existsSync } from 'node:fs'; import * as own from 'fs/promises';";
    let tell = |code: &'static str| async move {
        let code = format!(
            "await (async (at) => {code})(api.pluginConfig.at).catch((e) => e.code + ' ' + e.message.includes(e.code))"
        );
        tell(imports, &code, files).await
    };
    assert_eq!(tell("readFileSync(at + '/ws/a.md', 'utf8')").await, "grüße");
    assert_eq!(
        tell("promises.readFile(at + '/ws/./sub/../a.md', { encoding: 'utf-8' })").await,
        "grüße"
    );
    assert_eq!(tell("own.readFile(at + '/ws/in/b.md', 'utf8')").await, "b");
    assert_eq!(
        tell("(await promises.readFile(at + '/ws/a.md')).toString('utf8')").await,
        "grüße"
    );
    assert_eq!(tell("(await promises.readFile(at + '/ws/a.md')).length").await, "7");
    assert_eq!(
        tell("readFileSync('index.js', 'utf8').includes('register')").await,
        "true"
    );
    assert_eq!(
        tell("(await promises.readdir(at + '/ws')).join()").await,
        "a.md,in,out,sub"
    );
    let kinds = "fs.readdirSync(at + '/ws', { withFileTypes: true }).map((e) => [e.isFile(), e.isDirectory(), e.isSymbolicLink()].map(Number).join('')).join()";
    assert_eq!(tell(kinds).await, "100,001,001,010");
    let facts = "{ const s = await promises.stat(at + '/ws/a.md'); return [s.size, s.isFile(), s.mtime instanceof Date, s.mtimeMs > 0]; }";
    assert_eq!(tell(facts).await, "7,true,true,true");
    assert_eq!(
        tell("[existsSync(at + '/ws/a.md'), existsSync(at + '/ws/z'), existsSync(at + '/ws-evil/secret')]").await,
        "true,false,false"
    );
    assert_eq!(
        tell("new Promise((done) => fs.readFile(at + '/ws/none', (e) => done(e.code)))").await,
        "ENOENT"
    );
    for (code, refusal) in [
        ("readFileSync(at + '/ws/none', 'utf8')", "ENOENT true"),
        ("readFileSync(at + '/later/none', 'utf8')", "ENOENT true"),
        ("readFileSync(at + '/ws', 'utf8')", "EISDIR true"),
        ("readFileSync(at + '/ws-evil/secret')", "EACCES true"),
        ("readFileSync(at + '/ws-evil/none')", "EACCES true"),
        ("readFileSync(at + '/ws/../ws-evil/secret')", "EACCES true"),
        ("readFileSync(at + '/ws/out/secret')", "EACCES true"),
        ("promises.readdir(at)", "EACCES true"),
        ("readFileSync('/proc/self/environ')", "EACCES true"),
        ("fs.writeFileSync(at + '/ws/a.md', '')", "EROFS true"),
        ("promises.rm(at + '/ws/a.md')", "EROFS true"),
    ] {
        assert_eq!(tell(code).await, refusal, "{code}");
    }
}

#[tokio::test]
async fn a_pipe_and_a_very_large_file_are_refused() {
    let files = |_: &mut JsOptions, folder: &Folder| {
        let large = fs::File::create(folder.write("plugin/large", "")).expect("a file");
        large.set_len(17 * 1024 * 1024).expect("a size");
        drop(std::os::unix::net::UnixListener::bind(folder.0.join("plugin/socket")).expect("a socket"));
    };
    for (name, code) in [("large", "EFBIG"), ("socket", "EACCES")] {
        let code_of = format!("await fs.promises.readFile('{name}').catch((e) => e.code)");
        assert_eq!(tell("import fs from 'node:fs';", &code_of, files).await, code);
    }
}

#[tokio::test]
async fn paths_are_those_of_posix() {
    let imports = "import path, { join, sep } from 'node:path'; import plain from 'path';";
    let cases = [
        ("join('/a', '../b', './c')", "/b/c"),
        ("join('a', '', '..', '..', 'b/')", "../b/"),
        ("join('')", "."),
        ("path.join('/ws', '../ws-evil/x')", "/ws-evil/x"),
        ("path.normalize('/a//b/../../../c/.')", "/c"),
        ("path.normalize('')", "."),
        ("path.normalize('./')", "./"),
        ("path.resolve('/a', 'b', '../c/')", "/a/c"),
        ("path.resolve('/a', '/b')", "/b"),
        ("path.resolve('x') === process.cwd() + '/x'", "true"),
        ("path.dirname('/a/b/')", "/a"),
        ("path.dirname('/a')", "/"),
        ("path.dirname('a')", "."),
        ("path.dirname('/')", "/"),
        ("path.basename('/a/b.md')", "b.md"),
        ("path.basename('/a/b.md', '.md')", "b"),
        ("path.basename('.md', '.md')", ".md"),
        ("path.extname('a.b.md')", ".md"),
        ("path.extname('.hidden') + path.extname('x') + path.extname('x.')", "."),
        ("path.relative('/a/b/c', '/a/d')", "../../d"),
        ("path.relative('/a', '/a')", ""),
        ("path.isAbsolute('/a') && !path.isAbsolute('a')", "true"),
        ("plain === path && path.posix === path && sep", "/"),
        (
            "JSON.stringify(path.parse('/a/b.md'))",
            r#"{"root":"/","dir":"/a","base":"b.md","ext":".md","name":"b"}"#,
        ),
        (
            "(() => { try { join(1); } catch (e) { return e.name; } })()",
            "TypeError",
        ),
    ];
    let code: Vec<&str> = cases.iter().map(|(code, _)| *code).collect();
    let code = format!("JSON.stringify([{}].map(String))", code.join(",\n"));
    let told: Vec<String> = serde_json::from_str(&tell(imports, &code, |_, _| {}).await).expect("a list");
    for ((code, expected), told) in cases.iter().zip(told) {
        assert_eq!(told, *expected, "{code}");
    }
}

#[tokio::test]
async fn the_surroundings_hold_nothing_of_this_machine() {
    for (code, told) in [
        ("JSON.stringify(process.env)", "{}"),
        (
            "await fetch('http://127.0.0.1/').catch((e) => e.message)",
            "fetch is not granted to this plugin",
        ),
        (
            "[typeof require, typeof std, typeof os, typeof Deno, typeof WebSocket]",
            "undefined,undefined,undefined,undefined,undefined",
        ),
        (
            "new TextDecoder().decode(new TextEncoder().encode('grüße €'))",
            "grüße €",
        ),
        ("new TextDecoder().decode(new Uint8Array([0xff, 0x41]))", "\u{fffd}A"),
        (
            "(() => { try { new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([0xff])); } catch (e) { return e.name; } })()",
            "TypeError",
        ),
        (
            "new TextDecoder().decode(new TextEncoder().encode('x'.repeat(10000))).length",
            "10000",
        ),
        (
            "await new Promise((done) => queueMicrotask(() => done('micro')))",
            "micro",
        ),
        ("await new Promise((done) => setImmediate(done, 'soon'))", "soon"),
        ("await new Promise((done) => process.nextTick(done, 'tick'))", "tick"),
        ("api.resolvePath('x') === api.rootDir + '/x'", "true"),
        ("typeof api.runtime", "undefined"),
        (
            "(() => { try { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1e6); } catch (e) { return e.name; } })()",
            "TypeError",
        ),
    ] {
        assert_eq!(tell("", code, |_, _| {}).await, told, "{code}");
    }
}

#[tokio::test]
async fn a_plugin_that_bends_intrinsics_bends_only_its_own() {
    let body = format!(
        "JSON.parse = JSON.stringify = () => '!'; Promise.prototype.then = () => {{ throw 1; }}; globalThis.Date = null;\n\
         Object.prototype.then = undefined; Reflect.apply = Object.defineProperty = null;\n{}",
        telling("'still here'")
    );
    let loaded = load(&body).await;
    assert_eq!(loaded.ask().await, Ok(json!("still here")));
    let other = load(&telling("JSON.stringify([1])")).await;
    assert_eq!(other.ask().await, Ok(json!("[1]")));
}
