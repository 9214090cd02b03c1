import CloakroomCore
import NIOCore

/// A leased way to send one request to an upstream: an HTTP/1.1 connection, or a stream of an HTTP/2 connection.
protocol UpstreamLease: AnyObject {
    var target: TargetRuntime { get }
    /// Number of the target; see ``TargetState/slot``.
    var slot: Int { get }
    /// Whether the request of the lease in progress probes the target and has no result yet.
    var isProbe: Bool { get set }
    /// Whether it is a stream of an HTTP/2 connection.
    var isHTTP2: Bool { get }
    /// The stream, if it is draining.
    var drainingStream: UpstreamStream? { get }
    /// Bytes of the response that wait until the client has taken those before.
    var heldBytes: Int { get }
    /// Whether more can be written at the moment.
    var isWritable: Bool { get }
    /// Begins an exchange.
    /// - Parameters:
    ///   - request: Kept without a copy, which would count its references.
    ///   - writeHead: Writes the request head in HTTP/1.1.
    func begin(
        _ request: consuming UpstreamRequest, for delegate: any UpstreamDelegate, writeHead: (inout ByteBuffer) -> Void)
    /// Writes part of the request body.
    /// - Parameter isChunked: Whether its length is unknown, so that HTTP/1.1 needs a chunk.
    func writeBody(_ bytes: ByteBuffer, isChunked: Bool)
    /// Ends a request body of unknown length.
    /// - Parameter trailers: Complete field lines.
    func writeLastChunk(trailers: ByteBuffer?)
    /// The request is complete.
    func finishRequest()
    /// Sends the data written so far.
    func flush()
    /// The client's side of a tunnel has ended. Tunnels use HTTP/1.1 only.
    func closeWriteSide()
    /// Both sides of a tunnel have ended: closes the connection after the pending data is sent.
    func finishTunnel()
    /// Pauses or resumes reading, to follow the client's speed.
    func setPaused(_ isPaused: Bool)
    /// The exchange needs no more of the response: what is left of it is received and dropped, if that is not too much.
    func discardResponse()
    /// Ends the lease, because other requests wait.
    func endForOthers()
    /// The exchange was cancelled.
    func cancel()
    /// It was leased and is not needed.
    func release()
}

extension UpstreamLease {
    /// Index of the target in the configuration of its upstream.
    var targetIndex: Int { target.index }
}

enum UpstreamLink: PooledConnection, Equatable {
    case http1(UpstreamConnection)
    case http2(UpstreamHTTP2Connection)

    var poolID: PooledConnectionID {
        switch self {
        case .http1(let connection): connection.poolID
        case .http2(let connection): connection.poolID
        }
    }

    var isTargetUsable: Bool {
        switch self {
        case .http1(let connection): connection.isTargetUsable
        case .http2(let connection): connection.isTargetUsable
        }
    }

    /// The pool keeps the connection as idle.
    func becomeIdle() {
        if case .http1(let connection) = self { connection.becomeIdle() }
    }

    /// The pool closes an idle connection.
    func evict() {
        switch self {
        case .http1(let connection): connection.evict()
        case .http2(let connection): connection.retire()
        }
    }
}

/// Requests for leases.
extension UpstreamPool {
    /// An exchange that waits for a connection.
    struct Waiter {
        let delegate: any UpstreamDelegate
        /// Whether it is expected to get a response head soon; see ``Route/timed``.
        let isTimed: Bool
        /// Whether the request is sent for the first time, so that it adds to the retry budget.
        let isFirst: Bool
        /// Maximum number of targets that a connection attempt for it tries.
        let maxTargets: Int
        /// Targets that it was sent to already.
        let tried: TriedTargets
        /// The target that it probes; `nil` for none.
        var probe: TargetState?

        init(_ delegate: any UpstreamDelegate, _ options: LeaseOptions) {
            self.delegate = delegate
            isTimed = options.isTimed
            isFirst = options.isFirst
            maxTargets = options.maxTargets
            tried = options.tried
        }
    }

    /// What a request needs.
    struct LeaseOptions {
        /// Whether the connection must be a new one, because an idle one was just found closed.
        var isFresh = false
        /// Whether a response head is expected soon.
        var isTimed = true
        /// Whether the request was not sent before.
        var isFirst = true
        /// Targets that the request was sent to already.
        var tried = TriedTargets.none
        /// Maximum number of targets that a connection attempt tries, at least 1.
        var maxTargets = 1
        /// Time until which the request may wait; `.max` for none.
        var deadline = UInt64.max
    }

    enum Lease {
        case leased(any UpstreamLease)
        case waiting(WaiterID)
        case rejected
    }
}
