import CloakroomCore
import CloakroomTelemetry
import Synchronization

/// The requests in flight of one client address, shared by all its connections and event loops.
final class ClientLoad: Sendable {
    private let inFlight = Atomic<Int>(0)
    private let connections = Atomic<Int>(0)
    private let draining = Atomic<Int>(0)
    /// The number of files that are sent to the client, or opened for it.
    let openFiles = Atomic<Int>(0)
    private let whenDrained: @Sendable () -> Void

    /// - Parameter whenDrained: Called when ``isDraining`` becomes `false`, on any thread.
    init(whenDrained: @escaping @Sendable () -> Void = {}) { self.whenDrained = whenDrained }

    /// Number of requests in flight.
    var count: Int { inFlight.load(ordering: .relaxed) }

    var connectionCount: Int { connections.load(ordering: .relaxed) }

    /// Counts a connection, or the end of one. Called by ``PerClientConnectionLimit`` only.
    /// - Returns: The number of connections.
    @discardableResult
    func addConnections(_ change: Int) -> Int { connections.wrappingAdd(change, ordering: .relaxed).newValue }

    /// Counts a request, which ends with ``endRequest()``.
    /// - Returns: Whether the limit allows it. Otherwise nothing is counted.
    func beginRequest(limit: Int) -> Bool {
        guard inFlight.wrappingAdd(1, ordering: .relaxed).newValue > limit else { return true }
        endRequest()
        return false
    }

    /// A request that was counted has ended.
    func endRequest() { inFlight.wrappingSubtract(1, ordering: .relaxed) }

    /// Whether requests are counted that outlive their client connections.
    var isDraining: Bool { draining.load(ordering: .relaxed) > 0 }

    /// The client has left a request that is counted, until ``endDraining()``.
    func beginDraining() { draining.wrappingAdd(1, ordering: .relaxed) }

    func endDraining() {
        if draining.wrappingSubtract(1, ordering: .relaxed).newValue == 0 { whenDrained() }
    }
}

/// The requests in flight on one event loop of clients behind trusted proxies, by client address.
///
/// Such clients share connections, so a request costs a look-up. Each event loop counts alone, and allows twice an even
/// part of the limit, because connections are not spread evenly.
struct ForwardedClientLoads {
    private var counts: [ClientAddressKey: Int] = [:]

    /// Number of clients with requests in flight.
    var clients: Int { counts.count }

    /// Counts a request, which ends with ``endRequest(of:)``.
    /// - Parameter limit: 1...1,000,000; see ``LimitsConfiguration/inFlightPerAddress``.
    /// - Returns: Whether the limit allows it. Otherwise nothing is counted.
    mutating func beginRequest(of client: ClientAddressKey, limit: Int, loopCount: Int) -> Bool {
        let share = max(1, min(limit, limit * 2 / max(1, loopCount)))
        let count = counts[client, default: 0]
        guard count < share else { return false }
        counts[client] = count + 1
        return true
    }

    /// Counts a request whatever the limit is.
    mutating func addRequest(of client: ClientAddressKey) { counts[client, default: 0] += 1 }

    /// A request that was counted has ended.
    mutating func endRequest(of client: ClientAddressKey) {
        guard let count = counts[client] else { return }
        counts[client] = count > 1 ? count - 1 : nil
    }
}

/// Which limits a request in flight is counted for.
struct CountedCaps: OptionSet {
    let rawValue: UInt8

    static let address = CountedCaps(rawValue: 1)
    static let session = CountedCaps(rawValue: 2)
    static let route = CountedCaps(rawValue: 4)
}

/// Limits of the requests in flight of one client address, one session and one route.
extension Exchange {
    /// Counts the request until it ends.
    /// - Returns: The problem, if a limit is exceeded.
    func countInFlight(_ permit: UpstreamPermit, _ route: RouteRuntime) -> ProblemDocument? {
        guard countAddress() else { return rejected(.address, route, .tooManyRequests) }
        if snapshot.inFlightPerSession > 0 {
            guard permit.beginRequest(limit: snapshot.inFlightPerSession) else {
                return rejected(.session, route, .tooManyRequests)
            }
            countedCaps.insert(.session)
        }
        if route.route.inFlight > 0 {
            guard route.beginRequest() else { return rejected(.route, route, .overloaded) }
            countedCaps.insert(.route)
        }
        return nil
    }

    /// Counts the request for its client address, unless it is counted.
    /// - Returns: Whether the limit allows it.
    func countAddress() -> Bool {
        let limit = snapshot.inFlightPerAddress
        guard limit > 0, !countedCaps.contains(.address), forwardedClient == nil else { return true }
        if let load = peer.load {
            guard load.beginRequest(limit: limit) else { return false }
            countedCaps.insert(.address)
        } else if peer.isTrusted,
            let client = ClientAddress.key(request.head, trusted: snapshot.config.configuration.trustedProxies)
        {
            guard context.forwardedLoads.beginRequest(of: client, limit: limit, loopCount: context.loopCount) else {
                return false
            }
            forwardedClient = client
        }
        return true
    }

    func rejected(_ cap: ClientCap, _ route: RouteRuntime?, _ code: ProblemCode) -> ProblemDocument {
        snapshot.config.telemetry.metrics.clientLimits.rejected(cap)
        if code == .overloaded { telemetry.failed(.overloaded) }
        return route?.problem(code, retryAfter: 1) ?? ProblemDocument(Problem(code, retryAfter: 1))
    }

    /// The request is sent again with another session object, which is counted from now on.
    func moveCount(to permit: UpstreamPermit) {
        guard countedCaps.contains(.session) else { return }
        self.permit?.endRequest()
        _ = permit.beginRequest(limit: .max)
    }

    /// The request is sent again, and the stream of the attempt before is still occupied: until it is closed, it counts
    /// as a request of its own.
    func countDrainingAttempt() {
        guard let stream = drainingStream.take(), stream.isDraining else { return }
        var counted = self.counted
        _ = counted.load?.beginRequest(limit: .max)
        _ = counted.permit?.beginRequest(limit: .max)
        if counted.route?.beginRequest() == false { counted.route = nil }
        if let client = counted.client { context.forwardedLoads.addRequest(of: client) }
        counted.end(after: stream, context)
    }

    /// The request has ended. If it still occupies a stream of an upstream, it counts until that stream is closed:
    /// otherwise a client that cancels its requests could occupy all streams. For the same reason it counts until work
    /// off the event loop is done.
    func endInFlight() {
        let stream = drainingStream.take()
        guard !countedCaps.isEmpty || forwardedClient != nil else { return }
        let counted = counted
        countedCaps = []
        forwardedClient = nil
        guard awaitsWork else { return counted.end(after: stream, context) }
        counted.load?.beginDraining()
        afterWork = { [context] in
            counted.end(after: stream, context)
            counted.load?.endDraining()
        }
    }

    private var counted: CountedRequest {
        CountedRequest(
            load: countedCaps.contains(.address) ? peer.load : nil,
            permit: countedCaps.contains(.session) ? permit : nil,
            route: countedCaps.contains(.route) ? route : nil, client: forwardedClient)
    }
}

/// What a request in flight is counted for.
private struct CountedRequest {
    let load: ClientLoad?
    let permit: UpstreamPermit?
    var route: RouteRuntime?
    let client: ClientAddressKey?

    /// Ends the count, when the stream is closed if it is draining.
    func end(after stream: UpstreamStream?, _ context: LoopContext) {
        guard let stream, stream.isDraining else { return end(context) }
        load?.beginDraining()
        stream.afterDraining { [context] in
            end(context)
            load?.endDraining()
        }
    }

    private func end(_ context: LoopContext) {
        load?.endRequest()
        permit?.endRequest()
        route?.endRequest()
        if let client { context.forwardedLoads.endRequest(of: client) }
    }
}
