//! Which plugin answers which path below `/plugins/<id>`.

use actix::Recipient;
use understudy_messages::service::CallRoute;
use understudy_plugins::Registration;
use understudy_plugins::registration::RouteRegistration;

use super::{Inventory, Status};
use crate::plugin::InstanceState;

/// Below which path all routes of plugins lie.
const BELOW: &str = "/plugins/";

/// Who answers a request.
#[derive(Clone, Debug)]
pub enum Routed {
    /// This route of this instance.
    To {
        /// The route, as it was registered.
        route: String,
        /// The instance.
        port: Recipient<CallRoute>,
    },
    /// Nobody at the moment: the plugin does not serve.
    Stopped,
    /// Nobody.
    Unknown,
}

impl Inventory {
    /// Who answers a request for `path`, which lies below the path of the plugin `id`.
    pub fn route(&self, id: &str, path: &str) -> Routed {
        let Some(plugin) = self.find(id) else {
            return Routed::Unknown;
        };
        let working = match &plugin.status {
            Status::Loaded(working) => working,
            // what routes it would have is not known
            Status::Failed(_) => return Routed::Stopped,
            Status::Disabled => return Routed::Unknown,
        };
        let routes = &working.loaded.registration.routes;
        match (longest(id, routes, path), &working.routes) {
            (Some(_), _) if working.served.state() != InstanceState::Running => Routed::Stopped,
            (Some(route), Some(port)) => Routed::To {
                route: route.path.clone(),
                port: port.clone(),
            },
            _ => Routed::Unknown,
        }
    }
}

/// Takes those routes out of a registration that lie below the path of another plugin, and says so.
pub(super) fn admit(id: &str, registration: &mut Registration) -> Vec<String> {
    let (own, others) = std::mem::take(&mut registration.routes)
        .into_iter()
        .partition(|route| below(id, &route.path).is_some());
    registration.routes = own;
    let refused = |route: RouteRegistration| {
        let owner = route.path.split('/').nth(2).unwrap_or_default();
        format!("route {} is refused: it belongs to {owner}", route.path)
    };
    Vec::into_iter(others).map(refused).collect()
}

/// The path below the plugin's own; `None` for one below that of another.
fn below<'a>(id: &str, path: &'a str) -> Option<&'a str> {
    let Some(rest) = path.strip_prefix(BELOW) else {
        return Some(path);
    };
    let (owner, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let rest = if rest.is_empty() { "/" } else { rest };
    owner.eq_ignore_ascii_case(id).then_some(rest)
}

/// The route whose path is the longest of those that take this one.
fn longest<'a>(id: &str, routes: &'a [RouteRegistration], path: &str) -> Option<&'a RouteRegistration> {
    let takes = |route: &&RouteRegistration| {
        let own = below(id, &route.path).unwrap_or_default();
        let rest = path.strip_prefix(own.trim_end_matches('/'));
        own == path || (route.below && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    };
    let taking = routes.iter().filter(takes);
    taking.max_by_key(|route| below(id, &route.path).map(str::len))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str, below: bool) -> RouteRegistration {
        RouteRegistration {
            path: path.to_owned(),
            below,
        }
    }

    #[test]
    fn the_longest_route_answers_and_a_name_is_not_cut_in_two() {
        let routes = [
            route("/", true),
            route("/hook", true),
            route("/plugins/P/hook/a", false),
        ];
        let answers = |path: &str| longest("p", &routes, path).map(|route| &*route.path);
        assert_eq!(answers("/hook/a"), Some("/plugins/P/hook/a"));
        assert_eq!(answers("/hook/a/b"), Some("/hook"));
        assert_eq!(answers("/hooks"), Some("/"));
        assert_eq!(longest("p", &routes[1..], "/hooks"), None);
        assert_eq!(longest("p", &[route("/hook", false)], "/hook/a"), None);
    }

    #[test]
    fn a_route_below_another_plugins_path_is_refused_and_its_owner_named() {
        let mut registration = Registration {
            routes: vec![route("/plugins/other/a", false), route("/plugins/own/a", false)],
            ..Registration::default()
        };
        let refused = admit("own", &mut registration);
        assert_eq!(refused, ["route /plugins/other/a is refused: it belongs to other"]);
        assert_eq!(registration.routes, [route("/plugins/own/a", false)]);
    }
}
