//! Plugins that were granted origins, against a service on the loopback.

use std::sync::Mutex;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use understudy_messages::origin::{Origin, OriginToken, Originating};

use super::*;
use crate::listeners::Listeners;

/// A service that answers each request by its path, and the heads of all that it got.
struct Service {
    origin: String,
    heard: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Service {
    async fn start() -> Self {
        // a second time it is there already
        let _installed = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let (heard, mut tasks) = (Arc::<Mutex<Vec<String>>>::default(), JoinSet::new());
        let kept = heard.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, kept.clone()));
            }
        });
        Self {
            origin,
            heard,
            _tasks: tasks,
        }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("heard").clone()
    }

    /// A plugin that may fetch from here, whose first handler answers the value of `code`.
    async fn plugin(&self, code: &str) -> Loaded {
        let code = code.replace("ORIGIN", &self.origin);
        load_with(&telling(&code), |options, _| options.fetch = vec![self.origin.clone()]).await
    }
}

async fn serve(stream: TcpStream, heard: Arc<Mutex<Vec<String>>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.is_ok_and(|read| read == 0) {
                return;
            }
            if let Some(given) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = given.trim().parse().expect("a length");
            }
            if line.trim().is_empty() {
                break;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.expect("a body");
        heard.lock().expect("heard").push(head.clone());
        let (status, more, answer) = match head.split(' ').nth(1).expect("a path") {
            "/echo" => (200, "X-Answer: yes\r\n", body),
            "/json" => (201, "", b"{\"a\":[1,2]}".to_vec()),
            "/away" => (302, "Location: /echo\r\n", Vec::new()),
            "/large" => (200, "", vec![b'x'; (1 << 20) + 1]),
            "/hang" => std::future::pending().await,
            _ => (404, "", b"nothing".to_vec()),
        };
        let head = format!("HTTP/1.1 {status} X\r\n{more}content-length: {}\r\n\r\n", answer.len());
        let _gone = stream.write_all(&[head.as_bytes(), &answer].concat()).await;
    }
}

#[tokio::test]
async fn a_plugin_fetches_from_where_it_was_granted() {
    let service = Service::start().await;
    let post = "fetch('ORIGIN/echo', { method: 'post', headers: { 'X-Own': 'grüße'.length }, body: 'grüße' })";
    for (code, told) in [
        (format!("await {post}.then((it) => it.text())"), "grüße"),
        (
            format!(
                "await {post}.then((it) => [it.ok, it.status, it.headers.get('x-ANSWER'), it.headers.get('none')])"
            ),
            "true,200,yes,",
        ),
        ("(await (await fetch('ORIGIN/json')).json()).a".to_owned(), "1,2"),
        (
            "await fetch('ORIGIN/none').then((it) => [it.ok, it.status])".to_owned(),
            "false,404",
        ),
        (
            "await Promise.all([1, 2, 3].map(() => fetch('ORIGIN/json'))).then((all) => all.length)".to_owned(),
            "3",
        ),
    ] {
        assert_eq!(service.plugin(&code).await.ask().await, Ok(json!(told)), "{code}");
    }
    assert!(
        service.heard()[0].starts_with("POST /echo HTTP/1.1\r\nx-own: 5\r\n"),
        "{:?}",
        service.heard()
    );
}

/// What calls of a test are known by.
struct Named(OriginToken);

impl Originating for Named {
    fn token(self: Arc<Self>) -> Option<OriginToken> {
        Some(self.0)
    }
}

#[tokio::test]
async fn what_is_fetched_from_the_gateway_itself_says_in_which_call_and_nothing_else_does() {
    let named = Arc::new(Named(OriginToken::random()));
    let name = named.0.expose();
    let own = "await Promise.resolve().then(() => fetch('ORIGIN/echo')).then(() => ctx.origin)";
    let anothers =
        "await fetch('ORIGIN/echo', { headers: { 'X-Understudy-Origin': 'another' } }).then(() => ctx.origin)";
    for (code, is_gateway, told) in [
        (own, true, Some(&*name)),
        (own, false, None),
        (anothers, true, Some("another")),
    ] {
        let service = Service::start().await;
        let address = service
            .origin
            .strip_prefix("http://")
            .expect("http")
            .parse()
            .expect("an address");
        let code = telling(&code.replace("ORIGIN", &service.origin));
        let loaded = load_with(&code, |options, _| {
            options.fetch = vec![service.origin.clone()];
            options.listeners = Listeners::new(is_gateway.then_some(address));
        })
        .await;
        let mut call = prompt_call(0);
        call.context = Arc::new(HookContext {
            origin: Some(Origin::of(&named)),
            ..HookContext::default()
        });
        let answer = text_of(loaded.instance.call_hook(call).await);
        assert_eq!(answer, Ok(json!(name)), "a plugin may name it itself");
        let heard = service.heard().concat();
        let header = told.map(|told| format!("x-understudy-origin: {told}\r\n"));
        assert_eq!(heard.contains("x-understudy-origin"), header.is_some(), "{heard}");
        assert!(header.is_none_or(|header| heard.contains(&header)), "{heard}");
    }
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_nobody_follows_it() {
    let service = Service::start().await;
    let code = "await fetch('ORIGIN/away').then((it) => [it.status, it.headers.get('location')])";
    assert_eq!(service.plugin(code).await.ask().await, Ok(json!("302,/echo")));
    assert_eq!(service.heard().len(), 1);
}

#[tokio::test]
async fn what_was_not_granted_is_refused_and_never_asked() {
    let (service, other) = (Service::start().await, Service::start().await);
    let words = |code: &str| format!("await {code}.catch((error) => error.message)");
    let elsewhere = format!("fetch from {} is not granted to this plugin", other.origin);
    for (code, told) in [
        (format!("fetch('{}/echo')", other.origin), &*elsewhere),
        (
            "fetch('/echo')".to_owned(),
            "the url is none: relative URL without a base",
        ),
        (
            "fetch('file:///etc/passwd')".to_owned(),
            "fetch from null is not granted to this plugin",
        ),
        (
            "fetch('ORIGIN/echo', { method: 'CONNECT' })".to_owned(),
            "the method CONNECT is not here",
        ),
        (
            "fetch('ORIGIN/echo', { headers: { Host: 'other' } })".to_owned(),
            "the header host is not the plugin's to write",
        ),
        (
            "fetch('ORIGIN/echo', { headers: { 'a b': 'c' } })".to_owned(),
            "the header a b is none",
        ),
        (
            "fetch('ORIGIN/echo', { method: 'POST', body: 'x'.repeat(1048577) })".to_owned(),
            "the body is larger than 1 MiB",
        ),
    ] {
        assert_eq!(
            service.plugin(&words(&code)).await.ask().await,
            Ok(json!(told)),
            "{code}"
        );
    }
    assert!(service.heard().is_empty() && other.heard().is_empty());
    let body = telling(&format!("(await fetch('{}/json')).status", other.origin));
    let any = load_with(&body, |options, _| options.fetch = vec!["*".to_owned()]);
    assert_eq!(any.await.ask().await, Ok(json!("201")));
}

#[tokio::test]
async fn an_answer_has_a_bound_and_one_that_never_comes_has_an_end() {
    let service = Service::start().await;
    let large = "await fetch('ORIGIN/large').catch((error) => error.message)";
    let told = service.plugin(large).await.ask().await;
    assert_eq!(told, Ok(json!("fetch failed: the answer is larger than 1 MiB")));
    let clock = Clock::movable();
    let given = clock.clone();
    let code = telling(&format!(
        "await fetch('{}/hang').catch((error) => error.message)",
        service.origin
    ));
    let plugin = load_with(&code, |options, _| {
        options.fetch = vec![service.origin.clone()];
        options.clock = given;
    })
    .await;
    let waits = async {
        while service.heard().len() < 2 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(31));
    };
    let (told, ()) = tokio::join!(plugin.ask(), waits);
    assert_eq!(told, Ok(json!("fetch failed: no answer within 30s")));
}

#[tokio::test]
async fn a_request_ends_with_the_handler_that_made_it() {
    let service = Service::start().await;
    let body = format!(
        "let ended = 'not yet';
        api.on('before_prompt_build', async () => {{
            await fetch('{}/hang').catch((error) => {{ ended = error.message; }});
        }});
        api.on('before_prompt_build', async () => ({{ prependSystemContext: ended }}));",
        service.origin
    );
    let plugin = load_with(&body, |options, _| options.fetch = vec![service.origin.clone()]).await;
    let given_up = plugin.ask_within(0, Duration::from_millis(50)).await;
    assert_eq!(given_up, Err(CallError::Cancelled));
    let mut told = json!("not yet");
    while told == "not yet" {
        told = plugin.ask_number(1).await.expect("an answer");
    }
    assert_eq!(told, "fetch failed: nobody waits for it any longer");
}

#[tokio::test]
async fn requests_have_a_number_that_is_not_passed() {
    let service = Service::start().await;
    let code = "await Promise.race([...Array(65)].map(() => fetch('ORIGIN/hang'))).catch((error) => error.message)";
    let told = service.plugin(code).await.ask().await;
    assert_eq!(told, Ok(json!("more than 64 requests at the same time")));
}
