//! The program as an operator types it.

#[cfg(test)]
mod compared;
#[cfg(test)]
mod load;
#[cfg(test)]
mod plugins;
