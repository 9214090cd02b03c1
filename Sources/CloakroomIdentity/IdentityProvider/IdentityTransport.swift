import AsyncHTTPClient
import CloakroomCore
import CloakroomTLS
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization

/// Sends calls to an upstream's targets within a time limit and reduces every failure to a kind of
/// ``TokenClientError``.
///
/// The underlying errors are dropped here: errors of HTTP libraries may hold the values of header fields, and nothing
/// derived from a password or a token may be passed on.
struct IdentityTransport: Sendable {
    /// A response with a status and, for 2xx, its whole body. For 4xx it includes the body too if the call reads errors
    /// and the body is complete.
    struct Response: Sendable {
        var status: Int
        var body: [UInt8]
        /// Whether ``body`` is complete. `false` for an error body that was too large, late or truncated; it is empty
        /// then.
        var isWhole = true
        /// The values of `Cache-Control`, joined by commas.
        var cacheControl: [UInt8]?
        /// The server that responded.
        var server = ""
        /// The duration of the call, in nanoseconds.
        var nanoseconds: UInt64 = 0

        var isSuccess: Bool { (200...299).contains(status) }
    }

    /// The maximum size of a response body, in bytes.
    ///
    /// It also bounds the time that parsing adds to the call: ``JSONParser`` is linear, so a few milliseconds at most.
    static let bodyLimit = 65_536
    /// The maximum size of an error body, in bytes.
    fileprivate static let errorBodyLimit = 8_192

    let targets: [IdentityTarget]
    /// Selects among ``targets``; shared with requests.
    let selector: any TargetSelecting
    private let recent = RecentTarget()
    let spans: SpanFactory
    /// The server in metrics and log lines.
    let source: IdentityCallSource
    let observer: (any IdentityCallObserver)?

    /// Closes the connections. Calls in progress and all later calls fail.
    func shutdown() async {
        for target in targets { await target.shutdown() }
    }

    /// The configuration that all clients of identity calls have in common: HTTP/1.1, no redirects.
    /// - Parameters:
    ///   - connect: The time limit of one connection.
    ///   - maxConnections: The maximum number of connections to one target.
    static func clientConfiguration(
        tls: TLSConfiguration, connect: Duration, maxConnections: Int, idleTimeout: Duration
    ) -> HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        // Its spans would record whole URLs and carry a second trace context.
        configuration.tracing.tracer = nil
        configuration.httpVersion = .http1Only
        configuration.tlsConfiguration = tls
        configuration.timeout.connect = TimeAmount(connect)
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = maxConnections
        configuration.connectionPool.idleTimeout = TimeAmount(idleTimeout)
        // If a target refuses connections, the next target is tried instead of the same one until the time limit.
        configuration.connectionPool.retryConnectionEstablishment = false
        return configuration
    }

    /// Sends a call and reads the response. Reports a call without one.
    /// - Parameter timeout: Covers the whole call: every attempted target, the head and the last byte of the body.
    /// - Throws: Of kind `unreachable`, `timedOut` or `invalidResponse`.
    func send(_ call: IdentityRequest, timeout: Duration) async throws(TokenClientError) -> Response {
        let startedAt = Self.now
        defer { IdentityCallTime.current?.add(nanoseconds: Self.now &- startedAt) }
        do {
            var response = try await sendWithFailover(call, limit: CallLimit(timeout, since: startedAt))
            response.nanoseconds = Self.now &- startedAt
            return response
        } catch {
            let error = TokenClientError(error, in: call.operation)
            reportFailure(of: call, nil, error.kind, since: startedAt)
            throw error
        }
    }

    /// Tries targets until one is reached. A target is skipped only if connecting or TLS verification failed: a target
    /// that closed the connection later may have processed the call. The failure is reported, so that neither requests
    /// nor other calls try the target until its back-off ends.
    private func sendWithFailover(_ call: IdentityRequest, limit: CallLimit) async throws -> Response {
        var kind = TokenClientError.Kind.unreachable
        var isUnsent = true
        var attempts = 0
        for index in order(of: call) {
            let target = targets[index]
            let startedAt = Self.now
            let state = selector.started(index, now: startedAt)
            let connections = target.client(for: call).connections
            let attemptsBefore = attempts
            do {
                let response = try await sendWithRetry(call, to: target, limit: limit, attempts: &attempts)
                if response.isSuccess, !call.isFollowUp { recent.used(index, now: Self.now) }
                let isFailure = Self.failureStatuses.contains(response.status)
                selector.ended(index, state, isFailure ? .failed : .succeeded, startedAt: startedAt, now: Self.now)
                return response
            } catch {
                // A first attempt at this target that lost its connection was sent, regardless of the second attempt.
                let isFirstAttempt = attempts == attemptsBefore + 1
                if let cause = Self.connectFailure(error) {
                    selector.record(index, cause, error, now: Self.now)
                    selector.ended(index, state, .connectFailed, startedAt: startedAt, now: Self.now)
                    kind = cause == .timedOut ? .timedOut : .unreachable
                    isUnsent = isUnsent && isFirstAttempt
                    continue
                }
                guard Self.isTimeOver(error) else {
                    selector.ended(index, state, .failed, startedAt: startedAt, now: Self.now)
                    throw error
                }
                let isConnecting = !target.client(for: call).wasConnected(since: connections)
                if !isConnecting {
                    selector.ended(index, state, .failed, startedAt: startedAt, now: Self.now)
                } else if Duration.nanoseconds(Self.now - startedAt) >= limit.timeout / 2 {
                    // The time limit of the call passed before that of the connection.
                    selector.record(index, .timedOut, HTTPClientError.connectTimeout, now: Self.now)
                    selector.ended(index, state, .connectFailed, startedAt: startedAt, now: Self.now)
                } else {
                    selector.ended(index, state, .cancelled, startedAt: startedAt, now: Self.now)
                }
                throw TokenClientError(
                    .timedOut, in: call.operation, isUnjudged: isConnecting && isUnsent && isFirstAttempt)
            }
        }
        throw TokenClientError(kind, in: call.operation, isUnjudged: isUnsent)
    }

    /// The targets in the order in which they are tried.
    private func order(of call: IdentityRequest) -> [Int] {
        let now = Self.now
        let order = selector.order(now: now)
        guard call.isFollowUp, let first = recent.target(now: now), order.contains(first) else { return order }
        return [first] + order.filter { $0 != first }
    }

    /// Statuses of gateways, which count as failures of the target.
    private static let failureStatuses = 502...504

    /// The uptime in nanoseconds, by which event loops measure back-offs.
    static var now: UInt64 { NIODeadline.now().uptimeNanoseconds }

    /// The reason why no connection was established; no byte of the call was sent then. `nil` if there was one.
    private static func connectFailure(_ error: any Error) -> ConnectFailure? {
        if isConnectionRefused(error) { return .unreachable }
        if isTLSFailure(error) { return .tls }
        guard let error = error as? HTTPClientError else { return nil }
        return error == .connectTimeout || error == .tlsHandshakeTimeout ? .timedOut : nil
    }

    /// Whether the time limit ended a call. Nothing else cancels calls.
    private static func isTimeOver(_ error: any Error) -> Bool {
        guard !Task.isCancelled else { return true }
        let error = error as? HTTPClientError
        return error == .deadlineExceeded || error == .getConnectionFromPoolTimeout
    }

    /// Sends a call and, if a pooled connection turns out to be closed, sends it once more. A call that is not safe to
    /// send twice is not repeated, because it is unknown whether the first attempt arrived.
    private func sendWithRetry(
        _ call: IdentityRequest, to target: IdentityTarget, limit: CallLimit, attempts: inout Int
    ) async throws -> Response {
        do {
            return try await sendTraced(call, to: target, limit: limit, attempts: &attempts)
        } catch let error where call.isIdempotent && Self.isConnectionLost(error) {
            return try await sendTraced(call, to: target, limit: limit, attempts: &attempts)
        }
    }

    /// Sends a call once, inside a span of its own if its request is sampled.
    /// - Parameter attempts: The number of earlier attempts.
    private func sendTraced(
        _ call: IdentityRequest, to target: IdentityTarget, limit: CallLimit, attempts: inout Int
    ) async throws -> Response {
        let span = spans.startClientSpan(call, to: target, resends: attempts)
        attempts += 1
        call.lastServer.set(target.server)
        let startedAt = Self.now
        var observed: ObservedAttempt?
        do {
            var request = try call.request(to: target)
            span?.inject(into: &request.headers)
            observed = ObservedAttempt(request)
            let reader = ResponseReader(readsErrors: call.readsErrors, errorTime: limit.timeout / 4, observed)
            var response = try await reader.send(request, with: target.client(for: call).http, until: limit.deadline)
            response.server = target.server
            span?.end(status: response.status)
            observed?.end(response)
            report(call, to: target, status: response.status, since: startedAt)
            return response
        } catch {
            // Only the time limit cancels a call.
            let failure = Task.isCancelled ? .timedOut : TokenClientError.Kind(transport: error)
            observed?.end(failure)
            span?.end(failure: failure)
            report(call, to: target, failure: failure, since: startedAt)
            throw error
        }
    }

    private func report(
        _ call: IdentityRequest, to target: IdentityTarget, status: Int? = nil,
        failure: TokenClientError.Kind? = nil, since startedAt: UInt64
    ) {
        observer?.identityCallAttempted(
            IdentityCallAttempt(
                call: call.operation, source: source, method: call.configuration.method,
                serverAddress: target.serverAddress, serverPort: target.serverPort, status: status,
                errorType: failure?.effects.errorType, nanoseconds: Self.now &- startedAt))
    }

    /// Reports that a call had no usable result, unless the server rejected the credential of a user.
    /// - Parameters:
    ///   - response: `nil` without one.
    ///   - defect: `nil` for the word of the kind.
    func reportFailure(
        of call: IdentityRequest, _ response: Response?, _ kind: TokenClientError.Kind,
        _ defect: IdentityCallFailure.Defect? = nil, since startedAt: UInt64 = Self.now
    ) {
        guard let defect = defect ?? kind.effects.word.map({ IdentityCallFailure.Defect($0) }) else { return }
        observer?.identityCallFailed(
            IdentityCallFailure(
                call: call.operation, source: source, method: call.configuration.method,
                server: response?.server ?? call.lastServer.text, path: call.loggablePath, status: response?.status,
                defect: defect, nanoseconds: response?.nanoseconds ?? (Self.now &- startedAt)))
    }

    /// Whether connecting failed; no byte of the call was sent then. Unix domain sockets fail with the system's own
    /// errors, of which only these concern connecting.
    private static func isConnectionRefused(_ error: any Error) -> Bool {
        switch error {
        case is NIOConnectionError: true
        case let error as IOError: [ECONNREFUSED, ENOENT, ENOTDIR, EACCES, EAGAIN].contains(error.errnoCode)
        default: false
        }
    }

    /// Whether an established connection was lost.
    private static func isConnectionLost(_ error: any Error) -> Bool {
        switch error {
        case let error as HTTPClientError: error == .remoteConnectionClosed
        case let error as IOError: error.errnoCode == ECONNRESET || error.errnoCode == EPIPE
        default: false
        }
    }

    /// Whether TLS failed; no byte of the call was sent then.
    private static func isTLSFailure(_ error: any Error) -> Bool {
        switch error {
        case NIOSSLError.handshakeFailed, NIOSSLError.cannotFindPeerIP: true
        case is NIOSSLExtraError, is ServerNameVerifier.Mismatch: true
        default: false
        }
    }
}

/// The time limit of a call over all its attempts.
private struct CallLimit {
    let timeout: Duration
    let deadline: NIODeadline

    init(_ timeout: Duration, since startedAt: UInt64) {
        self.timeout = timeout
        deadline = .uptimeNanoseconds(startedAt) + TimeAmount(timeout)
    }
}

/// Receives the response of one attempt, on the event loop of its connection.
private final class ResponseReader: HTTPClientResponseDelegate {
    typealias Response = IdentityTransport.Response

    /// Ends an attempt whose result is known without the body of its response, and its connection.
    private struct IsKnown: Error {}

    private let readsErrors: Bool
    /// The maximum time for an error body.
    private let errorTime: Duration
    private let observed: ObservedAttempt?
    private let response = Mutex<Response?>(nil)

    init(readsErrors: Bool, errorTime: Duration, _ observed: ObservedAttempt?) {
        self.readsErrors = readsErrors
        self.errorTime = errorTime
        self.observed = observed
    }

    /// The deadline covers the body too. The status of an error is known without its body, so a body that is too large,
    /// truncated or late is no failure.
    func send(_ request: HTTPClient.Request, with client: HTTPClient, until deadline: NIODeadline) async throws
        -> Response
    {
        let task = client.execute(request: request, delegate: self, eventLoop: .indifferent, deadline: deadline)
        do {
            return try await withTaskCancellationHandler {
                try await task.get()
            } onCancel: {
                task.cancel()
            }
        } catch {
            guard var response = response.withLock({ $0 }), !response.isSuccess else { throw error }
            response.body = []
            return response
        }
    }

    func didReceiveHead(task: HTTPClient.Task<Response>, _ head: HTTPResponseHead) -> EventLoopFuture<Void> {
        observed?.received(head)
        let status = Int(head.status.code)
        let cacheControl = head.headers["Cache-Control"]
        let isReadError = readsErrors && (400...499).contains(status)
        let received = Response(
            status: status, body: [], isWhole: !isReadError,
            cacheControl: cacheControl.isEmpty ? nil : Array(cacheControl.joined(separator: ",").utf8))
        response.withLock { $0 = received }
        if !isReadError && !received.isSuccess {
            // A short body is received and dropped, so that the connection can be used again.
            guard let length = head.headers.first(name: "Content-Length").flatMap({ Int($0) }),
                length <= IdentityTransport.errorBodyLimit
            else { return task.eventLoop.makeFailedFuture(IsKnown()) }
        }
        if !received.isSuccess {
            let timer = task.eventLoop.scheduleTask(in: TimeAmount(errorTime)) { task.fail(reason: IsKnown()) }
            task.futureResult.whenComplete { _ in timer.cancel() }
        }
        return task.eventLoop.makeSucceededVoidFuture()
    }

    func didReceiveBodyPart(task: HTTPClient.Task<Response>, _ part: ByteBuffer) -> EventLoopFuture<Void> {
        let (size, isSuccess) = response.withLock { response in
            let isSuccess = response?.isSuccess ?? false
            // Without its error body, the response is whole already.
            if isSuccess || response?.isWhole == false { response?.body += part.readableBytesView }
            return (response?.body.count ?? 0, isSuccess)
        }
        let limit = isSuccess ? IdentityTransport.bodyLimit : IdentityTransport.errorBodyLimit
        guard size <= limit else { return task.eventLoop.makeFailedFuture(NIOTooManyBytesError(maxBytes: limit)) }
        return task.eventLoop.makeSucceededVoidFuture()
    }

    func didFinishRequest(task: HTTPClient.Task<Response>) throws -> Response {
        guard var whole = response.withLock({ $0 }) else { throw HTTPClientError.remoteConnectionClosed }
        whole.isWhole = true
        return whole
    }
}

/// The server that a call was sent to last.
final class LastServer: Sendable {
    private let server = Mutex("")

    var text: String { server.withLock { $0 } }

    func set(_ text: String) { server.withLock { $0 = text } }
}

/// The target that issued a token just now. The call that follows is sent to it too, because others may not know the token
/// yet.
private final class RecentTarget: Sendable {
    private let last = Mutex<(target: Int, time: UInt64)?>(nil)
    /// Maximum nanoseconds between the two calls.
    private static let time: UInt64 = 1_000_000_000

    func used(_ target: Int, now: UInt64) { last.withLock { $0 = (target, now) } }

    func target(now: UInt64) -> Int? {
        guard let last = last.withLock({ $0 }), now < last.time &+ Self.time else { return nil }
        return last.target
    }
}
