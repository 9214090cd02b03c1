/// Exponential back-off between attempts to connect, with jitter, so that gateways which have lost a server at the same
/// moment do not reconnect at the same moment.
struct ExponentialBackoff: Sendable {
    /// The upper bound of the first wait.
    static let first = Duration.milliseconds(50)
    static let longest = Duration.seconds(5)
    /// A connection that lasted this long resets the back-off.
    static let resetAfter = Duration.seconds(5)

    private var limit = ExponentialBackoff.first

    init() {}

    mutating func next(using generator: inout some RandomNumberGenerator) -> Duration {
        let wait = limit * Double.random(in: 0...1, using: &generator)
        limit = min(limit * 2, Self.longest)
        return wait
    }

    /// Records how long a connection has lasted.
    mutating func connectionEnded(after time: Duration) {
        if time >= Self.resetAfter { self = ExponentialBackoff() }
    }
}
