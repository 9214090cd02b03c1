/// Blocks callers until it is opened.
final class Gate: Sendable {
    private let arrivals = AsyncStream<Void>.makeStream()
    private let opening = AsyncStream<Void>.makeStream()

    /// Waits at the gate; returns immediately once it is open.
    func pass() async {
        arrivals.continuation.yield()
        for await _ in opening.stream {}
    }

    /// Waits until a caller is blocked.
    func waitForArrival() async {
        for await _ in arrivals.stream { return }
    }

    func open() {
        opening.continuation.finish()
    }
}
