import CloakroomCore

/// The pushed requests of logins at one provider (RFC 9126), or its introspections of the tokens of clients (RFC 7662).
///
/// Any client can begin a login or present a token, and the connections also serve the sign-outs, exchanges and key
/// fetches of signed-in users, so the number of these calls in flight is limited. Each client has a share of it, so that
/// one client does not keep others from signing in. Further calls wait for a short time, in the order in which they began.
actor PushQueue {
    /// The maximum number of requests in flight, of all clients and of one client.
    static let maxInFlight = 32
    static let maxInFlightOfClient = 4
    /// The maximum number of requests that wait, of all clients and of one client.
    static let maxWaiting = 1_000
    static let maxWaitingOfClient = 100
    private static let maxWait = Duration.seconds(2)
    private let inFlightOfClient: Int
    private let waitingOfClient: Int

    /// The requests of one client; those whose address is unknown share one.
    private struct Share {
        var inFlight = 0
        var waiting = 0
    }

    private struct Waiter {
        let id: UInt64
        let client: ClientAddressKey?
        let continuation: CheckedContinuation<Bool, Never>
    }

    private var inFlight = 0
    private var shares: [ClientAddressKey?: Share] = [:]
    private var waiters: [Waiter] = []
    private var waiterCount: UInt64 = 0

    init(inFlightOfClient: Int = maxInFlightOfClient, waitingOfClient: Int = maxWaitingOfClient) {
        (self.inFlightOfClient, self.waitingOfClient) = (inFlightOfClient, waitingOfClient)
    }

    /// Makes a call of a client when there is a place for it.
    /// - Throws: `unreachable` if there is none in time, and the errors of the call.
    nonisolated func run<Value: Sendable>(
        _ operation: TokenClientError.Operation, from address: String,
        _ call: () async throws(TokenClientError) -> Value
    ) async throws(TokenClientError) -> Value {
        let client = ClientAddressKey(address)
        guard await enter(client) else { throw TokenClientError(.unreachable, in: operation) }
        do throws(TokenClientError) {
            let value = try await call()
            await leave(client)
            return value
        } catch {
            await leave(client)
            throw error
        }
    }

    /// Waits for a place.
    /// - Returns: Whether the request may be sent; ``leave(_:)`` is to be called after it then.
    func enter(_ client: ClientAddressKey?) async -> Bool {
        if hasPlace(for: client) {
            take(client)
            return true
        }
        guard waiters.count < Self.maxWaiting, shares[client, default: Share()].waiting < waitingOfClient
        else { return false }
        waiterCount += 1
        let id = waiterCount
        return await withCheckedContinuation { continuation in
            waiters.append(Waiter(id: id, client: client, continuation: continuation))
            shares[client, default: Share()].waiting += 1
            Task {
                try? await Task.sleep(for: Self.maxWait)
                giveUp(id)
            }
        }
    }

    /// A request has ended.
    func leave(_ client: ClientAddressKey?) {
        inFlight -= 1
        change(client) { $0.inFlight -= 1 }
        while let index = waiters.firstIndex(where: { hasPlace(for: $0.client) }) {
            let waiter = remove(at: index)
            take(waiter.client)
            waiter.continuation.resume(returning: true)
        }
    }

    private func giveUp(_ id: UInt64) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return }
        remove(at: index).continuation.resume(returning: false)
    }

    private func remove(at index: Int) -> Waiter {
        let waiter = waiters.remove(at: index)
        change(waiter.client) { $0.waiting -= 1 }
        return waiter
    }

    private func hasPlace(for client: ClientAddressKey?) -> Bool {
        inFlight < Self.maxInFlight && shares[client, default: Share()].inFlight < inFlightOfClient
    }

    private func take(_ client: ClientAddressKey?) {
        inFlight += 1
        change(client) { $0.inFlight += 1 }
    }

    private func change(_ client: ClientAddressKey?, _ body: (inout Share) -> Void) {
        var share = shares[client, default: Share()]
        body(&share)
        shares[client] = share.inFlight == 0 && share.waiting == 0 ? nil : share
    }
}
