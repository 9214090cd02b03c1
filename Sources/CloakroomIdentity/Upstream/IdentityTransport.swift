import AsyncHTTPClient
import CloakroomCore
import CloakroomTLS
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL

/// Carries calls to an upstream's targets, within a time, and says how that went in four words.
///
/// What went wrong below is dropped here: errors of HTTP libraries may hold the values of header fields, and nothing that
/// was made from a password or a token may travel on.
struct IdentityTransport: Sendable {
    /// An answer with a status and, for 2xx, its whole body; for 4xx the body too, where the call reads errors and it
    /// came whole.
    struct Response: Sendable {
        var status: Int
        var body: [UInt8]
        /// Whether ``body`` is all that was sent. `false` for an error's body that was too large, late or cut; it is
        /// empty then.
        var isWhole = true

        var isSuccess: Bool { (200...299).contains(status) }
    }

    /// The largest body that is read, in bytes.
    ///
    /// It also bounds what decoding adds to the call's time: ``JSONParser`` is linear, so a few milliseconds at most.
    static let bodyLimit = 65_536
    /// The largest body of an error that is read, in bytes.
    private static let errorBodyLimit = 8_192

    let targets: [IdentityTarget]
    /// Chooses among ``targets``; requests share it.
    let selector: any TargetSelecting
    let spans: SpanFactory

    /// Sends a call and reads the answer.
    /// - Parameter timeout: For all of it: every target that is tried, the head and the last byte of the body.
    func send(_ call: IdentityRequest, timeout: Duration) async throws(IdentityTransportError) -> Response {
        do {
            return try await withThrowingTaskGroup(of: Response?.self) { group in
                defer { group.cancelAll() }
                group.addTask { try await sendWithFailover(call, timeout: timeout) }
                // The client's own deadline ends with the head; a body may drip.
                group.addTask {
                    try await Task.sleep(for: timeout)
                    return nil
                }
                if case .some(.some(let response)) = try await group.next() { return response }
                // Only the call itself knows whether it was sent by now.
                group.cancelAll()
                if case .some(.some(let response)) = try await group.next() { return response }
                throw IdentityTransportError(.timedOut)
            }
        } catch {
            throw IdentityTransportError(error)
        }
    }

    /// Tries targets until one is reached. Only a target that could not be connected to, or could not prove who it is, is
    /// passed over: one that broke off may have acted on the call. That is reported, so that neither requests nor other
    /// calls try it until its back-off ends.
    private func sendWithFailover(_ call: IdentityRequest, timeout: Duration) async throws -> Response {
        var failure = IdentityTransportError(.unreachable, isUnsent: true)
        var attempts = 0
        var tried: [Int] = []
        while let index = selector.chooseTarget(isFollowUp: call.isFollowUp, tried: tried, now: Self.now) {
            tried.append(index)
            let target = targets[index]
            let startedAt = Self.now
            let connections = target.client(for: call).connections
            let attemptsBefore = attempts
            do {
                return try await sendWithRetry(call, to: target, timeout: timeout, attempts: &attempts)
            } catch {
                // A first attempt at this target that broke off was sent, whatever becomes of the second.
                let isFirstAttempt = attempts == attemptsBefore + 1
                if let cause = Self.connectFailure(error) {
                    selector.targetFailed(index, cause, error, startedAt: startedAt, now: Self.now)
                    failure.kind = cause == .timedOut ? .timedOut : .unreachable
                    failure.isUnsent = failure.isUnsent && isFirstAttempt
                    continue
                }
                guard Self.isTimeOver(error) else { throw error }
                let isConnecting = !target.client(for: call).wasConnected(since: connections)
                if isConnecting, Duration.nanoseconds(Self.now - startedAt) >= timeout / 2 {
                    // The time of the call ended before that of the connection.
                    selector.targetFailed(
                        index, .timedOut, HTTPClientError.connectTimeout, startedAt: startedAt, now: Self.now)
                }
                throw IdentityTransportError(
                    .timedOut, isUnsent: isConnecting && failure.isUnsent && isFirstAttempt)
            }
        }
        throw failure
    }

    /// Nanoseconds of the clock by which event loops measure back-offs.
    private static var now: UInt64 { NIODeadline.now().uptimeNanoseconds }

    /// Why there was no connection; then no byte of the call was sent. `nil` if there was one.
    private static func connectFailure(_ error: any Error) -> ConnectFailure? {
        if isConnectionRefused(error) { return .unreachable }
        if isTLSFailure(error) { return .tls }
        guard let error = error as? HTTPClientError else { return nil }
        return error == .connectTimeout || error == .tlsHandshakeTimeout ? .timedOut : nil
    }

    /// Whether a call ended with its time. Nothing but that cancels a call.
    private static func isTimeOver(_ error: any Error) -> Bool {
        guard !Task.isCancelled else { return true }
        let error = error as? HTTPClientError
        return error == .deadlineExceeded || error == .getConnectionFromPoolTimeout
    }

    /// A pooled connection may have been closed by the other side just now. That is worth a second attempt, unless the
    /// call does harm when it comes twice: whether the first one arrived cannot be told.
    private func sendWithRetry(
        _ call: IdentityRequest, to target: IdentityTarget, timeout: Duration, attempts: inout Int
    ) async throws -> Response {
        do {
            return try await sendTraced(call, to: target, timeout: timeout, attempts: &attempts)
        } catch let error where call.isIdempotent && Self.isConnectionLost(error) {
            return try await sendTraced(call, to: target, timeout: timeout, attempts: &attempts)
        }
    }

    /// Sends a call once, inside a span of its own if the request that it is for is sampled.
    /// - Parameter attempts: How many there were before this one.
    private func sendTraced(
        _ call: IdentityRequest, to target: IdentityTarget, timeout: Duration, attempts: inout Int
    ) async throws -> Response {
        let span = spans.startClientSpan(call, to: target, resends: attempts)
        attempts += 1
        var request = call.request(to: target)
        span?.inject(into: &request.headers)
        do {
            let response = try await sendOnce(
                request, with: target.client(for: call).http, timeout: timeout, readsErrors: call.readsErrors)
            span?.end(status: response.status)
            return response
        } catch {
            // Nothing but the end of the time cancels a call.
            span?.end(failure: Task.isCancelled ? .timedOut : IdentityTransportError(error).kind)
            throw error
        }
    }

    /// Whether there was no connection; then no byte of the call was sent. Sockets in the file system fail with the
    /// system's own errors, of which only these are about connecting.
    private static func isConnectionRefused(_ error: any Error) -> Bool {
        switch error {
        case is NIOConnectionError: true
        case let error as IOError: [ECONNREFUSED, ENOENT, ENOTDIR, EACCES, EAGAIN].contains(error.errnoCode)
        default: false
        }
    }

    /// Whether a connection that stood has come to its end.
    private static func isConnectionLost(_ error: any Error) -> Bool {
        switch error {
        case let error as HTTPClientError: error == .remoteConnectionClosed
        case let error as IOError: error.errnoCode == ECONNRESET || error.errnoCode == EPIPE
        default: false
        }
    }

    /// Whether TLS came to nothing; then no byte of the call was sent.
    private static func isTLSFailure(_ error: any Error) -> Bool {
        switch error {
        case NIOSSLError.handshakeFailed, NIOSSLError.cannotFindPeerIP: true
        case is NIOSSLExtraError, is ServerNameVerifier.Mismatch: true
        default: false
        }
    }

    private func sendOnce(
        _ request: HTTPClientRequest, with client: HTTPClient, timeout: Duration, readsErrors: Bool
    ) async throws -> Response {
        let response = try await client.execute(request, timeout: TimeAmount(timeout))
        let status = Int(response.status.code)
        guard (200...299).contains(status) else {
            let isRead = readsErrors && (400...499).contains(status)
            guard isRead else { return Response(status: status, body: []) }
            let body = await Self.errorBody(response, within: timeout / 4)
            return Response(status: status, body: body ?? [], isWhole: body != nil)
        }
        let body = try await response.body.collect(upTo: Self.bodyLimit)
        return Response(status: status, body: Array(body.readableBytesView))
    }

    /// The body of a failure may be anything. The status is known without it, so one that is too large, breaks off or
    /// does not end in time is `nil` and no failure of its own.
    private static func errorBody(_ response: HTTPClientResponse, within time: Duration) async -> [UInt8]? {
        await withTaskGroup(of: [UInt8]?.self) { group in
            group.addTask {
                let body = try? await response.body.collect(upTo: errorBodyLimit)
                return body.map { Array($0.readableBytesView) }
            }
            group.addTask {
                try? await Task.sleep(for: time)
                return nil
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
        }
    }
}

/// How a call failed on its way.
struct IdentityTransportError: Error, Equatable {
    /// What happened.
    enum Kind: Sendable {
        /// No connection, or it broke off.
        case unreachable
        /// No answer in time.
        case timedOut
        /// What came back is not HTTP, or too much of it.
        case invalidResponse
    }

    /// What happened.
    var kind: Kind
    /// Whether no connection could be made, so that certainly no byte of the call was sent.
    var isUnsent = false

    init(_ kind: Kind, isUnsent: Bool = false) {
        self.kind = kind
        self.isUnsent = isUnsent
    }

    /// Tells errors apart by their types.
    init(_ error: any Error) {
        switch error {
        case let error as IdentityTransportError: self = error
        case let error as HTTPClientError: self.init(Self.kind(error))
        case let error as ChannelError: self.init(Self.kind(error))
        case is NIOConnectionError, is IOError, is CancellationError, is NIOSSLError, is NIOSSLExtraError,
            is ServerNameVerifier.Mismatch:
            self.init(.unreachable)
        default: self.init(.invalidResponse)
        }
    }

    private static func kind(_ error: ChannelError) -> Kind {
        if case .connectTimeout = error { .timedOut } else { .unreachable }
    }

    private static func kind(_ error: HTTPClientError) -> Kind {
        switch error {
        case .connectTimeout, .deadlineExceeded, .readTimeout, .writeTimeout, .getConnectionFromPoolTimeout,
            .tlsHandshakeTimeout:
            .timedOut
        default: .unreachable
        }
    }

    /// The error as the caller of a token client gets it.
    func asTokenClientError(in call: TokenClientError.Operation) -> TokenClientError {
        switch kind {
        case .unreachable: TokenClientError(.unreachable, in: call, isUnjudged: isUnsent)
        case .timedOut: TokenClientError(.timedOut, in: call, isUnjudged: isUnsent)
        case .invalidResponse: TokenClientError(.invalidResponse, in: call)
        }
    }
}
