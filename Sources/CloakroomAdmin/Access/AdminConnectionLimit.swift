import CloakroomCore
import NIOCore
import Synchronization

/// The connections to the admin listener, bounded in total and per client address, and the output that clients have not
/// taken.
///
/// At a limit another connection is closed, not the new one: a client that holds many connections cannot keep probes and
/// scrapers of its own address out. A connection that waits for its response is closed last; of the others, that without
/// progress for the longest time is closed first.
final class AdminConnectionLimit: Sendable {
    /// The maximum number of connections.
    static let total = 128
    /// The maximum number of connections from one address (an IPv4 address or an IPv6 /64).
    static let perAddress = 32
    /// The maximum number of bytes that clients have not taken. One response may be larger.
    static let output = 64 << 20

    /// A connection, identified by its handler.
    struct Connection {
        /// `nil` is an unknown address.
        fileprivate let key: ClientAddressKey?
        fileprivate let end: @Sendable () -> Void
        /// The number of the last progress of all connections.
        fileprivate var progress: UInt64 = 0
        /// Whether the head of a request is complete, and the response has not begun.
        var isServed = false
        /// The number of bytes written since the client had taken everything.
        var output = 0
    }

    private struct State {
        var connections: [ObjectIdentifier: Connection] = [:]
        var progress: UInt64 = 0

        /// Removes the connection to close first.
        mutating func evict(where isCandidate: (ObjectIdentifier, Connection) -> Bool) -> Connection? {
            let first = connections.filter(isCandidate).min {
                ($0.value.isServed ? 1 : 0, $0.value.progress) < ($1.value.isServed ? 1 : 0, $1.value.progress)
            }
            return first.flatMap { connections.removeValue(forKey: $0.key) }
        }
    }

    private let state = Mutex(State())

    /// Adds a connection, and closes another one if there are too many: at the total limit, one of the address with the
    /// most connections.
    /// - Parameter end: Closes the connection; called on any thread.
    /// - Returns: Whether another one was closed.
    func open(_ id: ObjectIdentifier, peer: String, end: @escaping @Sendable () -> Void) -> Bool {
        let key = ClientAddressKey(peer)
        let evicted: Connection? = state.withLock { state in
            var counts: [ClientAddressKey?: Int] = [:]
            for connection in state.connections.values { counts[connection.key, default: 0] += 1 }
            var evicted: Connection?
            if counts[key, default: 0] >= Self.perAddress {
                evicted = state.evict { $1.key == key }
            } else if state.connections.count >= Self.total {
                let most = counts.values.max()
                evicted = state.evict { counts[$1.key] == most }
            }
            state.progress += 1
            state.connections[id] = Connection(key: key, end: end, progress: state.progress)
            return evicted
        }
        evicted?.end()
        return evicted != nil
    }

    /// Notes progress of a connection. If there is too much output, closes others that have some.
    func update(_ id: ObjectIdentifier, _ change: (inout Connection) -> Void = { _ in }) {
        let evicted: [Connection] = state.withLock { state in
            guard var connection = state.connections[id] else { return [] }
            change(&connection)
            state.progress += 1
            connection.progress = state.progress
            state.connections[id] = connection
            var evicted: [Connection] = []
            while state.connections.values.reduce(0, { $0 + $1.output }) > Self.output,
                let other = state.evict(where: { $0 != id && $1.output > 0 })
            {
                evicted.append(other)
            }
            return evicted
        }
        for connection in evicted { connection.end() }
    }

    func close(_ id: ObjectIdentifier) {
        _ = state.withLock { $0.connections.removeValue(forKey: id) }
    }
}

/// A connection of ``AdminConnectionLimit``. The first handler of the pipeline: a connection that is closed for another
/// one does not wait for the end of TLS.
final class AdminConnectionHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// Output is written in pieces of this size, each of which is progress when the client takes it.
    private static let pieceSize = 64 << 10

    private let limit: AdminConnectionLimit
    private let peer: String
    private let onEviction: () -> Void
    private var context: ChannelHandlerContext?
    private var pieces = 0
    private var id: ObjectIdentifier { ObjectIdentifier(self) }

    /// - Parameter onEviction: Called if another connection is closed for this one.
    init(_ limit: AdminConnectionLimit, peer: String, onEviction: @escaping () -> Void) {
        self.limit = limit
        self.peer = peer
        self.onEviction = onEviction
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let hasEvicted = limit.open(id, peer: peer) {
            bound.eventLoop.execute { bound.value.context?.close(promise: nil) }
        }
        if hasEvicted { onEviction() }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        limit.close(id)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        limit.update(id)
        context.fireChannelRead(data)
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        if event is AdminRequestHeads.HeadReceived { limit.update(id) { $0.isServed = true } }
        context.triggerUserOutboundEvent(event, promise: promise)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        var output = Self.unwrapOutboundIn(data)
        limit.update(id) { [size = output.readableBytes] connection in
            connection.isServed = false
            connection.output += size
        }
        repeat {
            let piece = output.readSlice(length: min(output.readableBytes, Self.pieceSize)) ?? output
            let written = (output.readableBytes == 0 ? promise : nil) ?? context.eventLoop.makePromise()
            pieces += 1
            written.futureResult.assumeIsolated().whenComplete { [self] _ in
                pieces -= 1
                // A part of a response keeps all of it in memory.
                limit.update(id) { [isTaken = pieces == 0] in if isTaken { $0.output = 0 } }
            }
            context.write(Self.wrapOutboundOut(piece), promise: written)
        } while output.readableBytes > 0
    }
}
