/// How long to wait before the next attempt to connect: a random share of a time that doubles, so that gateways which
/// have lost a server at the same moment do not come back at the same moment.
struct ExponentialBackoff: Sendable {
    /// The time that the first wait is a share of.
    static let first = Duration.milliseconds(50)
    /// No wait is longer.
    static let longest = Duration.seconds(5)
    /// A link that stood this long was a good one: the next wait is a first one.
    static let resetAfter = Duration.seconds(5)

    private var limit = ExponentialBackoff.first

    init() {}

    /// The next wait.
    mutating func next(using generator: inout some RandomNumberGenerator) -> Duration {
        let wait = limit * Double.random(in: 0...1, using: &generator)
        limit = min(limit * 2, Self.longest)
        return wait
    }

    /// Notes how long a link has stood.
    mutating func connectionEnded(after time: Duration) {
        if time >= Self.resetAfter { self = ExponentialBackoff() }
    }
}
