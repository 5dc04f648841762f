use super::*;

fn code_of(text: &str) -> String {
    Source::read("a/src/lib.rs", text, false).code
}

#[test]
fn comments_and_insides_of_literals_are_blank() {
    let text = "let a = \"{\"; // }\nlet b = '{'; /* { /* { */ } */ let c = r#\"\"}\"#;\nlet d: &'a str = b\"\\\"}\";";
    let code = code_of(text);
    assert_eq!(code.lines().count(), 3);
    assert!(!code.contains(['{', '}']), "{code}");
    assert!(code.contains("let c") && code.contains("&'a str"));
}

#[test]
fn raw_identifiers_and_words_that_end_in_r_are_no_strings() {
    let code = code_of("r#type; for b in bar { br(\"x\") }");
    assert_eq!(code, "r#type; for b in bar { br(\" \") }");
}

#[test]
fn literals_have_line_and_text() {
    let source = Source::read("a/src/lib.rs", "\n\"one\"\n  r#\"tw\"o\"# 'c'", false);
    let literal = |line, text: &str| Literal {
        line,
        text: text.to_owned(),
    };
    assert_eq!(source.literals, [literal(2, "one"), literal(3, "tw\"o")]);
}

#[test]
fn items_under_cfg_test_are_not_production() {
    let text = "fn a() {}\n#[cfg(test)]\nuse x::y;\nfn b() {}\n#[cfg(test)]\n#[path = \"t.rs\"]\nmod tests {\n    fn c() { \"l\" }\n}\nfn d() {}\n";
    let source = Source::read("a/src/lib.rs", text, false);
    let names: Vec<String> = functions(&source.production)
        .into_iter()
        .map(|function| function.name)
        .collect();
    assert_eq!(names, ["a", "b", "d"]);
    assert_eq!(source.production_lines, 3);
    assert!(source.literals.is_empty());
}

#[test]
fn functions_know_where_they_begin_and_end() {
    let code = code_of(
        "trait T { fn no_body(&self) -> [u8; 4]; }\npub async fn long<T>(\n    f: fn(T) -> T,\n) where T: Copy {\n    fn inner() {}\n}\n",
    );
    let function = |name: &str, line, body| Function {
        name: name.to_owned(),
        line,
        body,
    };
    assert_eq!(
        functions(&code),
        [function("long", 2, (4, 6)), function("inner", 5, (5, 5))]
    );
}

#[test]
fn impl_blocks_know_their_header() {
    let code = code_of("fn f(x: impl Fn()) {}\nimpl Handler<M> for A {\n    fn handle() {}\n}\n");
    assert_eq!(impls(&code), [("impl Handler<M> for A ", 2, 4)]);
}
