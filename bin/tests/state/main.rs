//! What outlives a gateway that is killed: the real program, at any moment.

#[cfg(test)]
mod around;
#[cfg(test)]
mod files;
#[cfg(test)]
mod kept;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod place;
#[cfg(test)]
mod responses;
#[cfg(test)]
mod sessions;
#[cfg(test)]
mod talk;
#[cfg(test)]
mod unheard;
