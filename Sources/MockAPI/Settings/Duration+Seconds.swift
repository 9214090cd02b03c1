extension Duration {
    /// The duration in seconds, fractions included, as Foundation's dates count.
    var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
