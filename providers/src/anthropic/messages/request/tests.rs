mod round;
mod scanned;
mod taken;
mod written;
