//! Services, routes and commands among what a plugin registers.

use serde::Deserialize;

use super::Registration;

/// The most services, the most routes, and the most commands, that one plugin may have.
const MOST: usize = 64;
/// The longest name or path, in bytes.
const LONGEST: usize = 256;

/// A service: it is started once the instance has registered, and stopped before it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ServiceRegistration {
    /// Its name inside the plugin.
    pub id: String,
}

/// A route below the plugin's own path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteRegistration {
    /// Its path, as it was registered.
    pub path: String,
    /// Whether all that lies below it is its own, too.
    pub below: bool,
}

/// A command of the command line, as people see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct CommandRegistration {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
}

/// How a route is to be served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct RouteOptions {
    /// `exact`, the usual one, or `prefix`.
    #[serde(rename = "match")]
    pub matches: Option<String>,
    /// Who looks at credentials: `gateway`, and nobody else.
    pub auth: Option<String>,
}

impl Registration {
    /// Registers a service; whether it was taken. What is wrong becomes a warning.
    pub fn service(&mut self, id: &str) -> bool {
        let known = self.services.iter().any(|service| service.id == id);
        let why = refusal(id, self.services.len(), known);
        let service = ServiceRegistration { id: id.to_owned() };
        self.take("service", id, why, |it| it.services.push(service))
    }

    /// Registers a route; whether it was taken. What is wrong becomes a warning.
    pub fn route(&mut self, path: &str, options: &RouteOptions) -> bool {
        let below = match options.matches.as_deref() {
            None | Some("exact") => Some(false),
            Some("prefix") => Some(true),
            Some(_) => None,
        };
        let known = self.routes.iter().any(|route| route.path == path);
        let why = match (is_path(path), below) {
            (false, _) => Some("its path is not made of plain names behind slashes"),
            (true, None) => Some("its match is neither exact nor prefix"),
            (true, Some(_)) => refusal(path, self.routes.len(), known),
        };
        if why.is_none() && options.auth.as_deref().is_some_and(|auth| auth != "gateway") {
            let warning = format!("route {path}: auth is the gateway's: a client's key is asked for all the same");
            self.warnings.push(warning);
        }
        let route = RouteRegistration {
            path: path.to_owned(),
            below: below.unwrap_or_default(),
        };
        self.take("route", path, why, |it| it.routes.push(route))
    }

    /// Registers the context engine; whether it was taken: there is one at most.
    pub fn context_engine(&mut self) -> bool {
        let why = self.context_engine.then_some("there is one already");
        self.take("context", "engine", why, |it| it.context_engine = true)
    }

    /// Registers a command; whether it was taken. What is wrong becomes a warning.
    pub fn command(&mut self, command: CommandRegistration) -> bool {
        let known = self.commands.iter().any(|it| it.name == command.name);
        let (name, why) = (command.name.clone(), refusal(&command.name, self.commands.len(), known));
        self.take("command", &name, why, |it| it.commands.push(command))
    }

    pub(super) fn take(&mut self, what: &str, name: &str, why: Option<&str>, add: impl FnOnce(&mut Self)) -> bool {
        match why {
            None => add(self),
            Some(why) => {
                let shown: String = name.escape_debug().take(LONGEST).collect();
                self.warnings.push(format!("{what} {shown} is refused: {why}"));
            }
        }
        why.is_none()
    }
}

fn refusal(name: &str, count: usize, known: bool) -> Option<&'static str> {
    if name.is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
        Some("it has no name that is one")
    } else if known {
        Some("is there already")
    } else {
        (count >= MOST).then_some("there are too many")
    }
}

/// Whether a path is one that no two readers understand differently.
fn is_path(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'@');
    let name = |name: &str| !matches!(name, "" | "." | "..") && name.bytes().all(plain);
    path == "/" || path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_a_plain_path_and_is_there_once() {
        let mut registration = Registration::default();
        let usual = RouteOptions::default();
        for taken in ["/", "/hook", "/plugins/p/a.b"] {
            assert!(registration.route(taken, &usual), "{taken}");
        }
        for refused in ["/hook", "", "hook", "/a/", "/a//b", "/../b", "/a b", "/%2e"] {
            assert!(!registration.route(refused, &usual), "{refused}");
        }
        let odd = RouteOptions {
            matches: Some("regex".to_owned()),
            ..RouteOptions::default()
        };
        assert!(!registration.route("/odd", &odd));
        assert_eq!((registration.routes.len(), registration.warnings.len()), (3, 9));
    }

    #[test]
    fn a_route_that_wants_to_look_at_credentials_is_behind_the_gateways_key_all_the_same() {
        let mut registration = Registration::default();
        let own = RouteOptions {
            auth: Some("plugin".to_owned()),
            matches: Some("prefix".to_owned()),
        };
        assert!(registration.route("/hook", &own) && registration.routes[0].below);
        assert_eq!(registration.warnings.len(), 1);
    }

    #[test]
    fn services_and_commands_have_one_name_each_and_an_end() {
        let mut registration = Registration::default();
        for number in 0..MOST {
            assert!(registration.service(&number.to_string()));
        }
        let command = |name: &str| CommandRegistration {
            name: name.to_owned(),
            description: None,
        };
        assert!(registration.command(command("sync")) && !registration.command(command("sync")));
        assert!(!registration.service("0") && !registration.service("") && !registration.service("more"));
        assert_eq!(registration.warnings.len(), 4);
    }
}
