extension Duration {
    /// The duration in seconds with fractions, as used by Foundation dates.
    var inSeconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}
