mod scanned;
