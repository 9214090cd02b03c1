import CloakroomProxy
import NIOCore
import NIOPosix
import Synchronization

/// Resolves names as the test specifies, and counts the queries.
final class FakeNames: Sendable {
    private struct State {
        var addresses: [SocketAddress]
        var asked = 0
        var isBroken = false
    }

    private struct ResolutionFailed: Error {}

    private let state: Mutex<State>

    init(_ addresses: [SocketAddress]) {
        state = Mutex(State(addresses: addresses))
    }

    var asked: Int { state.withLock { $0.asked } }

    func change(to addresses: [SocketAddress]) {
        state.withLock { $0.addresses = addresses }
    }

    func breakDown() {
        state.withLock { $0.isBroken = true }
    }

    var resolver: HostResolver {
        HostResolver { _, _ in
            let state = self.state.withLock { state in
                state.asked += 1
                return state
            }
            let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
            return state.isBroken
                ? eventLoop.makeFailedFuture(ResolutionFailed()) : eventLoop.makeSucceededFuture(state.addresses)
        }
    }
}
