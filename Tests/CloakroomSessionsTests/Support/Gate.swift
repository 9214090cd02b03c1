/// Holds those up who pass until it is opened.
final class Gate: Sendable {
    private let arrivals = AsyncStream<Void>.makeStream()
    private let opening = AsyncStream<Void>.makeStream()

    /// Waits at the gate; whoever comes after it was opened goes through.
    func pass() async {
        arrivals.continuation.yield()
        for await _ in opening.stream {}
    }

    /// Waits until somebody is there.
    func waitForArrival() async {
        for await _ in arrivals.stream { return }
    }

    func open() {
        opening.continuation.finish()
    }
}
