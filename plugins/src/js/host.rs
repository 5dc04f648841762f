//! What the plugin's engine may call of ours.

use std::rc::Rc;
use std::time::{Duration, UNIX_EPOCH};

use rquickjs::{Ctx, Exception, Function, IntoJs, Object, Result, TypedArray};
use serde::Deserialize;
use serde_json::Value;
use understudy_messages::hooks::wire::Field;

use super::files::FileError;
use super::state::{State, answer};
use crate::log::level;
use crate::registration::{CommandRegistration, Handler, HookOptions, RouteOptions};
use crate::{Registration, ToolRegistration};

/// As many handlers and tools may be registered, and as many warnings are kept.
const MOST_REGISTERED: usize = 1000;

/// The longest deadline that a plugin may give itself.
const LONGEST_MS: u64 = 600_000;

/// Makes the functions that the prelude is given.
pub(super) fn host<'js>(ctx: &Ctx<'js>, state: &Rc<State>) -> Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    registering(ctx, &host, state)?;
    calling(ctx, &host, state)?;
    timing(ctx, &host, state)?;
    reading(ctx, &host, state)?;
    fetching(ctx, &host, state)?;
    Ok(host)
}

fn registering<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let of = state.clone();
    let on = move |name: String, number: u32, options: String| {
        let mut registration = of.registration.borrow_mut();
        let room = has_room(&mut registration);
        room && register(&mut registration, &name, number, &options)
    };
    host.set("on", Function::new(ctx.clone(), on)?)?;
    let of = state.clone();
    let policy = move |id: String, number: u32| {
        let mut registration = of.registration.borrow_mut();
        let room = has_room(&mut registration);
        room && registration.policy(&id, Handler::Instance(number))
    };
    host.set("policy", Function::new(ctx.clone(), policy)?)?;
    let of = state.clone();
    let tool = move |facts: String| register_tool(&mut of.registration.borrow_mut(), &facts);
    host.set("tool", Function::new(ctx.clone(), tool)?)?;
    serving(ctx, host, state)?;
    let of = state.clone();
    let warn = move |text: String| {
        let warnings = &mut of.registration.borrow_mut().warnings;
        if warnings.len() < MOST_REGISTERED {
            warnings.push(text.chars().filter(|letter| !letter.is_control()).take(500).collect());
        }
    };
    host.set("warn", Function::new(ctx.clone(), warn)?)?;
    let of = state.clone();
    let loaded = move |failure: String| of.finish_loading(Some(failure).filter(|words| !words.is_empty()));
    host.set("loaded", Function::new(ctx.clone(), loaded)?)
}

/// Services, routes and commands.
fn serving<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let of = state.clone();
    let service = move |id: String| of.registration.borrow_mut().service(&id);
    host.set("service", Function::new(ctx.clone(), service)?)?;
    let of = state.clone();
    let route = move |path: String, options: String| {
        let mut registration = of.registration.borrow_mut();
        match serde_json::from_str::<RouteOptions>(&options) {
            Ok(options) => registration.route(&path, &options),
            Err(_) => {
                let shown: String = path.escape_debug().take(100).collect();
                registration
                    .warnings
                    .push(format!("route {shown} is refused: has options that are none"));
                false
            }
        }
    };
    host.set("route", Function::new(ctx.clone(), route)?)?;
    let of = state.clone();
    let engine = move || of.registration.borrow_mut().context_engine();
    host.set("contextEngine", Function::new(ctx.clone(), engine)?)?;
    let of = state.clone();
    let command = move |name: String, description: Option<String>| {
        let command = CommandRegistration { name, description };
        of.registration.borrow_mut().command(command)
    };
    host.set("command", Function::new(ctx.clone(), command)?)
}

/// Whether one more handler or policy may be registered; one that may not is said.
fn has_room(registration: &mut Registration) -> bool {
    let room = registration.hooks.len() + registration.policies.len() < MOST_REGISTERED;
    if !room && registration.warnings.len() < MOST_REGISTERED {
        let warning = format!("more than {MOST_REGISTERED} handlers and policies: one is left out");
        registration.warnings.push(warning);
    }
    room
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Options {
    priority: Option<Value>,
    timeout_ms: Option<Value>,
    matcher: Option<Value>,
    requires_tool_authority: Option<Value>,
}

/// Whether the handler was taken; otherwise there is a warning that says why not.
fn register(registration: &mut Registration, name: &str, number: u32, options: &str) -> bool {
    let Ok(options) = serde_json::from_str::<Options>(options) else {
        registration.warnings.push(format!("{name}: has options that are none"));
        return false;
    };
    let options = options.read(|warning| registration.warnings.push(format!("{name}: {warning}: not used")));
    let before = registration.hooks.len();
    registration.on(name, options, Handler::Instance(number));
    registration.hooks.len() > before
}

impl Options {
    /// A number that is none must not lose a guard: the handler goes without it.
    fn read(self, mut warn: impl FnMut(&str)) -> HookOptions {
        let priority = self.priority.map(|value| whole(&value));
        if priority == Some(None) {
            warn("the priority is no whole number");
        }
        let deadline = self
            .timeout_ms
            .map(|value| whole(&value).and_then(|ms| u64::try_from(ms).ok()));
        let deadline = deadline.map(|ms| ms.filter(|ms| (1..=LONGEST_MS).contains(ms)));
        if deadline == Some(None) {
            warn("timeoutMs is none of 1 to 600000");
        }
        HookOptions {
            priority: priority.flatten().unwrap_or_default(),
            deadline: deadline.flatten().map(Duration::from_millis),
            // no list of names is an empty list: that one is refused, in the same words everywhere
            tools: self
                .matcher
                .map(|value| serde_json::from_value(value).unwrap_or_default()),
            authority: self.requires_tool_authority == Some(Value::Bool(true)),
        }
    }
}

fn whole(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|number| i32::try_from(number).ok())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    name: String,
    description: Option<String>,
    parameters: Option<String>,
    replay_safe: bool,
}

fn register_tool(registration: &mut Registration, facts: &str) -> bool {
    let refused = match serde_json::from_str::<Tool>(facts) {
        Ok(tool) if tool.name.is_empty() => "a tool has no name".to_owned(),
        Ok(tool) if registration.tools.iter().any(|known| known.name == tool.name) => {
            format!("tool {}: is there already", tool.name)
        }
        Ok(tool) if registration.tools.len() < MOST_REGISTERED => {
            registration.tools.push(ToolRegistration {
                name: tool.name,
                description: tool.description,
                parameters: tool.parameters,
                replay_safe: tool.replay_safe,
            });
            return true;
        }
        Ok(_) => "too many tools".to_owned(),
        Err(_) => "a tool has no name, or facts that are none".to_owned(),
    };
    registration.warnings.push(refused);
    false
}

fn calling<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let of = state.clone();
    let settle = move |call: f64, kind: String, text: String| of.settle(call as u64, answer(&kind, &text));
    host.set("settle", Function::new(ctx.clone(), settle)?)?;
    let of = state.clone();
    let field = move |ctx: Ctx<'js>, call: f64, name: String| match field(&of, call as u64, &name) {
        Some(text) => Ok(text),
        None => Err(Exception::throw_message(
            &ctx,
            "the conversation is gone: its call has ended",
        )),
    };
    host.set("field", Function::new(ctx.clone(), field)?)?;
    let of = state.clone();
    let waited_for = move |call: f64| {
        let calls = of.calls.borrow();
        calls.get(&(call as u64)).is_some_and(|call| !call.interest.is_over())
    };
    host.set("waitedFor", Function::new(ctx.clone(), waited_for)?)?;
    let of = state.clone();
    let log = move |name: String, line: String| of.log.say(level(Some(&name)), &line);
    host.set("log", Function::new(ctx.clone(), log)?)
}

/// A field of the conversation as JSON; inside, `None` where it is not known.
fn field(state: &State, call: u64, name: &str) -> Option<Option<String>> {
    let event = state.calls.borrow().get(&call)?.event.clone()?;
    let field = Field::of(event.hook()).iter().find(|field| field.name() == name)?;
    let value = field.value(event.conversation()?.look());
    Some(value.and_then(|value| serde_json::to_string(&value).ok()))
}

fn timing<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let of = state.clone();
    let now = move || {
        let since = of.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        (since.as_secs_f64() * 1000.0).floor()
    };
    host.set("now", Function::new(ctx.clone(), now)?)?;
    let of = state.clone();
    let start = move |ctx: Ctx<'js>, timer: f64, wait: f64| {
        let at = of.clock.now() + Duration::from_micros((wait * 1000.0) as u64);
        match of.timers.start(timer as u64, at) {
            true => Ok(()),
            false => Err(Exception::throw_range(&ctx, "too many timers")),
        }
    };
    host.set("startTimer", Function::new(ctx.clone(), start)?)?;
    let of = state.clone();
    host.set(
        "stopTimer",
        Function::new(ctx.clone(), move |timer: f64| of.timers.stop(timer as u64))?,
    )
}

fn reading<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let of = state.clone();
    let text = move |ctx: Ctx<'js>, path: String| {
        let bytes = thrown(&ctx, of.files.read(&path))?;
        Ok::<_, rquickjs::Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    host.set("readText", Function::new(ctx.clone(), text)?)?;
    let of = state.clone();
    let bytes = move |ctx: Ctx<'js>, path: String| {
        let bytes = thrown(&ctx, of.files.read(&path))?;
        // copied, so that it counts as the engine's memory
        TypedArray::<u8>::new_copy(ctx, bytes)
    };
    host.set("readBytes", Function::new(ctx.clone(), bytes)?)?;
    let of = state.clone();
    let stat = move |ctx: Ctx<'js>, path: String| thrown(&ctx, of.files.stat(&path).map(|facts| facts.to_string()));
    host.set("stat", Function::new(ctx.clone(), stat)?)?;
    let of = state.clone();
    let list = move |ctx: Ctx<'js>, path: String| thrown(&ctx, of.files.list(&path).map(|facts| facts.to_string()));
    host.set("list", Function::new(ctx.clone(), list)?)?;
    let of = state.clone();
    let real = move |ctx: Ctx<'js>, path: String| {
        let real = of.files.real(&path).map(|path| path.to_string_lossy().into_owned());
        thrown(&ctx, real)
    };
    host.set("realpath", Function::new(ctx.clone(), real)?)?;
    let of = state.clone();
    let resolve = move |path: String| of.files.resolve(&path).to_string_lossy().into_owned();
    host.set("resolve", Function::new(ctx.clone(), resolve)?)?;
    let encode = |ctx: Ctx<'js>, text: String| TypedArray::<u8>::new_copy(ctx, text);
    host.set("encode", Function::new(ctx.clone(), encode)?)?;
    host.set("decode", Function::new(ctx.clone(), decode)?)
}

fn fetching<'js>(ctx: &Ctx<'js>, host: &Object<'js>, state: &Rc<State>) -> Result<()> {
    let of = state.clone();
    let fetch = move |ctx: Ctx<'js>, number: f64, written: String| {
        let begun = of.fetching.begin(number as u64, &written, of.at_work(), || of.origin());
        begun.map_err(|why| Exception::throw_type(&ctx, &why))
    };
    host.set("fetch", Function::new(ctx.clone(), fetch)?)
}

/// Bytes come as a text whose letters are the bytes: an engine's own memory cannot be looked into safely.
fn decode(ctx: Ctx<'_>, letters: String, fatal: bool) -> Result<String> {
    let bytes: Vec<u8> = letters.chars().filter_map(|letter| u8::try_from(letter).ok()).collect();
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) if fatal => Err(Exception::throw_type(&ctx, "the bytes are no UTF-8")),
        Err(other) => Ok(String::from_utf8_lossy(other.as_bytes()).into_owned()),
    }
}

/// A file's error, thrown as Node does.
fn thrown<'js, T>(ctx: &Ctx<'js>, result: std::result::Result<T, FileError>) -> Result<T> {
    result.or_else(|why| {
        let error = Exception::from_message(ctx.clone(), &why.to_string())?;
        error.as_object().set("code", why.code)?;
        let error = error.into_js(ctx)?;
        Err(ctx.throw(error))
    })
}
