//! Tools that may not be called are not offered.

use super::edits::Edits;
use super::request::{Member, Request, Value, elements, inner, word};
use crate::json::JsonError;

/// What says how tools are to be called, and means nothing without any.
const ABOUT_TOOLS: [&str; 3] = ["tool_choice", "parallel_tool_calls", "function_call"];

pub(super) fn edit(request: &Request<'_>, stays: &dyn Fn(&str) -> bool, edits: &mut Edits) -> Result<(), JsonError> {
    let (mut offered, mut left) = (false, Vec::new());
    let lists = ["tools", "functions"]
        .into_iter()
        .filter_map(|name| request.member(name));
    let mut gone = Vec::new();
    for list in lists {
        let (mut kept, mut removed) = (Vec::new(), Vec::new());
        for tool in elements(&list.value)? {
            match stays(&name(&tool)?) {
                true => kept.push(tool),
                false => removed.push(tool),
            }
        }
        offered |= !kept.is_empty() || !removed.is_empty();
        left.extend(kept.iter().map(name).collect::<Result<Vec<_>, _>>()?);
        match (kept.is_empty(), removed.is_empty()) {
            (_, true) => {}
            (true, false) => gone.push(list),
            (false, false) => remove(list, &kept, edits),
        }
    }
    let about = ABOUT_TOOLS.into_iter().filter_map(|name| request.member(name));
    gone.extend(about.filter(|member| offered && (left.is_empty() || names_another(&member.value, &left))));
    gone.sort_by_key(|member| member.whole.start);
    take_out(request, &gone, edits);
    Ok(())
}

/// The list with the tools that stay, each as it was written.
fn remove(list: &Member<'_>, kept: &[Value<'_>], edits: &mut Edits) {
    let texts: Vec<&str> = kept.iter().map(|tool| tool.text).collect();
    edits.replace(list.value.span.clone(), format!("[{}]", texts.join(",")));
}

/// Removes members, each with one comma: with the one behind it, or, of those that end the body, the one before them.
fn take_out(request: &Request<'_>, gone: &[&Member<'_>], edits: &mut Edits) {
    let is_gone = |member: &Member<'_>| gone.iter().any(|gone| gone.whole == member.whole);
    let last_kept = request.members.iter().rposition(|member| !is_gone(member));
    for (place, member) in request.members.iter().enumerate().filter(|(_, member)| is_gone(member)) {
        let next = request.members.get(place + 1);
        let span = match (last_kept, next) {
            (Some(last), Some(next)) if place < last => member.whole.start..next.whole.start,
            (Some(_), _) => request.members[place - 1].whole.end..member.whole.end,
            (None, Some(next)) => member.whole.start..next.whole.start,
            (None, None) => member.whole.clone(),
        };
        edits.remove(span);
    }
}

/// A tool's name; one that the provider runs may have no more than a type.
fn name(tool: &Value<'_>) -> Result<String, JsonError> {
    let function = inner(tool, "function")?;
    let named = match &function {
        Some(function) => word(function, "name")?,
        None => word(tool, "name")?,
    };
    Ok(match named {
        Some(name) => name,
        None => word(tool, "type")?.unwrap_or_default(),
    })
}

/// Whether a choice names a tool that is not offered any longer.
fn names_another(choice: &Value<'_>, left: &[String]) -> bool {
    let named = name(choice).unwrap_or_default();
    let is_word = matches!(&*named, "" | "auto" | "any" | "none" | "required" | "allowed_tools");
    !is_word && !left.contains(&named)
}
