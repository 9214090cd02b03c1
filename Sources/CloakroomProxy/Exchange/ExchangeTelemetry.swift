import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import Tracing

/// The telemetry of one exchange: its record, its spans if it is sampled, and the times and byte counts they contain.
struct ExchangeTelemetry {
    private(set) var record = ExchangeRecord()
    /// Trace context sent to the upstream.
    private(set) var traceContext: TraceContext?
    /// Time at which the request was received.
    private(set) var startedAt: UInt64 = 0
    /// Time at which the last attempt was sent to the upstream; 0 before the first.
    private(set) var sentAt: UInt64 = 0
    /// Time from which only the upstream is waited for: the end of the request, if its body was sent as it arrived,
    /// otherwise ``sentAt``.
    private(set) var awaitedSince: UInt64 = 0
    /// Time at which the wait for the request body began.
    private var bodyWaitStart: UInt64 = 0
    private var queueStart: UInt64 = 0
    /// Number of request body bytes received.
    private(set) var receivedBodyBytes = 0
    /// `nil` unless the exchange is sampled.
    private var spans: Spans?
    /// `nil` unless the gateway responds in place of an upstream, or an attempt has failed.
    private var rejection: RejectionDetails?

    /// The open spans of a sampled exchange. One reference, because two existentials cost 400 instructions a request
    /// even if there are none.
    private final class Spans {
        var server: (any Span)?
        var client: (any Span)?
        /// A non-standard method as sent; `nil` for the others.
        var originalMethod: String?
    }

    private var serverSpan: (any Span)? { spans?.server }
    private var clientSpan: (any Span)? { spans?.client }

    /// Context of the server span; `nil` unless the exchange is sampled.
    var spanContext: ServiceContext? { serverSpan?.context }

    // MARK: - The request

    /// An exchange begins.
    /// - Parameter wallNanoseconds: Wall-clock time of `now`, in nanoseconds since the epoch.
    mutating func start(
        _ method: RequestMethod, version: HTTPProtocolVersion, from peer: Peer, id: ID128, wallNanoseconds: Int64,
        now: UInt64
    ) {
        self = ExchangeTelemetry()
        startedAt = now
        record.method = method
        record.scheme = peer.scheme
        record.protocolVersion = version
        record.startWallNanoseconds = wallNanoseconds
        record.requestID = id
        record.peerAddress = peer.address
        record.decidedFor = peer.decidesFor
        record.listenerIndex = peer.listener
        record.tlsVersion = peer.tlsVersion
    }

    /// The route is known: begins the exchange's part of the trace.
    /// - Parameter context: A child of the context received from a trusted client, or a new one.
    /// - Returns: Whether the request is sampled. Otherwise the context is only propagated.
    mutating func routed(to routeIndex: Int, context: TraceContext) -> Bool {
        record.routeIndex = routeIndex
        traceContext = context
        record.traceID = context.traceID
        return context.isSampled
    }

    /// Starts the server span of a sampled request.
    /// - Parameter routes: The labels of routes, by index.
    mutating func startServerSpan(
        _ request: InboundRequest, from peer: Peer, config: ConfigSnapshot, routes: [RouteLabels]
    ) {
        guard let sampled = traceContext, let tracer = config.tracer else { return }
        // The sampling decision is passed as the parent: a root context without a span id.
        var serviceContext = ServiceContext.topLevel
        serviceContext.traceContext =
            request.traceContext ?? TraceContext(traceID: sampled.traceID, spanID: 0, flags: sampled.flags)
        let route = routes.indices.contains(record.routeIndex) ? routes[record.routeIndex] : nil
        let span = tracer.startAnySpan(
            Self.spanName(record.method, pattern: route?.pattern ?? ""), context: serviceContext, ofKind: .server)
        span.attributes["http.request.method"] = "\(record.method.label)"
        let originalMethod = record.method == .other ? request.loggableMethod : nil
        if let originalMethod { span.attributes["http.request.method_original"] = originalMethod }
        if let route, !route.pattern.isEmpty { span.attributes["http.route"] = route.pattern }
        span.attributes["cloakroom.route"] = route?.name ?? LoopTelemetry.unmatchedRoute
        span.attributes["url.path"] = request.loggablePath
        span.attributes["url.scheme"] = "\(record.scheme.name)"
        span.attributes["network.protocol.version"] = "\(record.protocolVersion.name)"
        span.attributes["client.address"] = record.peerAddress
        // The trace of an untrusted peer is not continued; the server span links to it.
        if !peer.isTrusted, let untrusted = request.readTraceContext() {
            var linked = ServiceContext.topLevel
            linked.traceContext = untrusted
            span.addLink(SpanLink(context: linked, attributes: [:]))
        }
        let spans = Spans()
        spans.server = span
        spans.originalMethod = originalMethod
        self.spans = spans
        propagate(span)
    }

    /// `{method} {http.route}`, or only the method without a pattern; `HTTP` instead of a non-standard method
    /// (OpenTelemetry semantic conventions for HTTP spans, name).
    static func spanName(_ method: RequestMethod, pattern: String) -> String {
        let method = method == .other ? "HTTP" : "\(method.label)"
        return pattern.isEmpty ? method : "\(method) \(pattern)"
    }

    mutating func decided(_ decision: ExchangeDecision) { record.decision = decision }

    /// The request is forwarded.
    mutating func authorized(_ permit: UpstreamPermit, for route: Route) {
        record.decision = route.requiresAuthorization ? .forwarded : .public
        if let session = permit.session { identified(session) }
    }

    /// The request has a session, which may use the route or not, or lacks the proof that the session needs.
    mutating func identified(_ session: Session) {
        record.sessionHash = session.id.value
        record.app = session.app
        record.isBound = session.isBoundToDevice
    }

    /// Sets the error that a local response reports.
    mutating func failed(_ error: ExchangeErrorType) { record.errorType = error }

    mutating func receivedBody(_ count: Int) { receivedBodyBytes += count }

    /// The request begins to wait for a connection.
    mutating func queueStarted(at now: UInt64) { queueStart = now }

    /// It waits no longer.
    /// - Returns: How long it waited for this connection, in nanoseconds.
    mutating func queueEnded(at now: UInt64) -> UInt64 {
        let time = now &- queueStart
        record.queueNanoseconds &+= time
        if spans != nil { addEvent("queue", duration: time) }
        return time
    }

    /// The request waits for its body before it is forwarded.
    mutating func bodyWaitStarted(at now: UInt64) { bodyWaitStart = now }

    /// The request is forwarded.
    mutating func bodyWaitEnded(at now: UInt64) {
        record.bodyWaitNanoseconds = now &- bodyWaitStart
        if spans != nil { addEvent("body_wait", duration: now &- bodyWaitStart) }
    }

    /// Adds the end of a wait to the server span.
    /// - Parameter duration: In nanoseconds.
    private func addEvent(_ name: String, duration: UInt64) {
        let milliseconds = Double(duration) / 1_000_000
        serverSpan?.addEvent(SpanEvent(name: name, attributes: ["cloakroom.duration_ms": .double(milliseconds)]))
    }

    // MARK: - Attempts

    /// The request is about to be sent to a target of an upstream.
    /// - Parameters:
    ///   - path: The path without its query; used only if the exchange is sampled.
    ///   - resends: How often it was sent before.
    mutating func startAttempt(
        _ upstream: UpstreamRuntime, target: TargetRuntime, path: @autoclosure () -> String, isHTTP2: Bool = false,
        resends: Int = 0, config: ConfigSnapshot, now: UInt64
    ) {
        record.upstreamIndex = upstream.firstTarget + target.index
        record.upstreamPeer = target.peer
        record.upstreamProtocol = isHTTP2 ? .http2 : nil
        sentAt = now
        awaitedSince = now
        guard spans != nil, let serverSpan, let tracer = config.tracer else { return }
        let span = tracer.startAnySpan(
            Self.spanName(record.method, pattern: ""), context: serverSpan.context, ofKind: .client)
        let configured = upstream.configuration.targets[target.index]
        span.attributes["http.request.method"] = "\(record.method.label)"
        if let method = spans?.originalMethod { span.attributes["http.request.method_original"] = method }
        span.attributes["server.address"] = configured.serverAddress
        if let port = configured.serverPort { span.attributes["server.port"] = Int64(port) }
        // The URL of a socket has no host.
        if configured.serverPort != nil {
            span.attributes["url.full"] = "\(configured.scheme.name)://\(configured.hostField)\(path())"
        }
        // Which address of a host name.
        if let address = target.state.identity.address { span.attributes["network.peer.address"] = address }
        span.attributes["network.protocol.version"] = isHTTP2 ? "2" : "1.1"
        if resends > 0 { span.attributes["http.request.resend_count"] = Int64(resends) }
        spans?.client = span
        propagate(span)
    }

    /// The complete request is written. The time before belongs to the gateway, the time after it to the upstream.
    mutating func requestWritten(now: UInt64) {
        sentAt = now
        awaitedSince = now
    }

    /// A body that was sent as it arrived is complete. The time before is that of the client and of the upstream.
    mutating func uploadCompleted(now: UInt64) { awaitedSince = now }

    /// The attempt failed.
    mutating func endAttempt(_ failure: UpstreamFailure, now: UInt64) {
        if sentAt != 0 { record.upstreamDurationNanoseconds = upstreamDuration(until: now) }
        endAttempt(errorType: "\(failure.label.label)", status: nil)
    }

    /// The response is not forwarded, because the request is sent again.
    mutating func endRejectedAttempt(status: Int) {
        endAttempt(errorType: "\(status)", status: Int64(status))
    }

    private mutating func endAttempt(errorType: @autoclosure () -> String, status: Int64?) {
        details.failed(target: record.upstreamIndex, outcome: errorType())
        guard let span = clientSpan else { return }
        if let status { span.attributes["http.response.status_code"] = status }
        span.attributes["error.type"] = errorType()
        span.setStatus(SpanStatus(code: .error))
        span.end()
        spans?.client = nil
    }

    /// The request is sent again.
    /// - Parameter reason: `nil` for a replay with another token.
    mutating func retried(_ reason: RetryReason? = nil) {
        record.retries += 1
        if let reason { record.retryReason = reason }
        record.upstreamDurationNanoseconds = nil
    }

    /// No target of the upstream could be reached. Metrics and the access log report it as a failed upstream request.
    /// - Parameters:
    ///   - target: Index in ``ConfigSnapshot/targets`` of the target that was tried last.
    ///   - duration: Duration of the attempts, in nanoseconds.
    mutating func connectFailed(target: Int, duration: UInt64) {
        record.upstreamIndex = target
        record.upstreamStatus = 0
        record.upstreamDurationNanoseconds = duration
    }

    /// The gateway's own endpoint has made its calls to an upstream or a provider.
    /// - Parameter nanoseconds: The sum of their durations; 0 if there were none.
    mutating func identityCallsEnded(nanoseconds: UInt64) {
        if nanoseconds > 0 { record.upstreamDurationNanoseconds = nanoseconds }
    }

    /// The request waited for the tokens of its session before it is forwarded.
    /// - Parameter nanoseconds: The time of the identity calls; 0 if there were none.
    mutating func tokensAwaited(nanoseconds: UInt64) {
        guard nanoseconds > 0 else { return }
        record.identityNanoseconds &+= nanoseconds
        if spans != nil { addEvent("token_wait", duration: nanoseconds) }
    }

    // MARK: - The response

    /// The response of the upstream is forwarded.
    mutating func responseStarted(status: Int) { record.status = UInt16(clamping: status) }

    mutating func sentBody(_ count: Int) { record.bytesSent += UInt64(count) }

    /// A response is replaced before any of it is sent.
    mutating func responseDiscarded() { record.bytesSent = 0 }

    /// A problem document is sent instead of forwarding the request.
    mutating func rejected(_ code: ProblemCode?, _ reason: UnauthorizedReason?, _ loginFailure: String? = nil) {
        record.unauthorizedReason = reason
        details.code = code
        if let loginFailure { details.loginFailure = loginFailure }
    }

    /// The session lacks a claim that the route requires.
    mutating func lacksClaim(_ name: String) { details.claim = name }

    private var details: RejectionDetails {
        mutating get {
            if let rejection { return rejection }
            let details = RejectionDetails()
            rejection = details
            return details
        }
    }

    /// A local response is sent.
    mutating func localResponse(status: Int, bodyLength: Int) {
        record.status = UInt16(clamping: status)
        // The client gets a local response, so the upstream's status is recorded as absent.
        if sentAt != 0 { record.upstreamStatus = 0 }
        record.bytesSent = record.method == .head ? 0 : UInt64(bodyLength)
    }

    /// The exchange has ended: completes the record and ends the open spans.
    /// - Parameters:
    ///   - now: Time of the end.
    ///   - eventTime: Time of the event that ended it.
    mutating func finish(errorType: ExchangeErrorType?, now: UInt64, eventTime: UInt64) {
        record.errorType = errorType
        record.durationNanoseconds = now &- startedAt
        record.bytesReceived = UInt64(receivedBodyBytes)
        if sentAt != 0, record.upstreamDurationNanoseconds == nil {
            record.upstreamDurationNanoseconds = upstreamDuration(until: eventTime)
        }
        if spans != nil {
            endClientSpan()
            endServerSpan()
            spans = nil
        }
        traceContext = nil
    }

    /// Reports the complete record, without a copy of it.
    /// - Parameters:
    ///   - request: Not changed; see ``UpstreamRequestEncoder/write(_:from:requestID:traceContext:into:)``.
    ///   - listener: The address of the listener, for a request that was rejected or failed.
    mutating func report(
        to loop: LoopTelemetry, of request: inout InboundRequest, listener: @autoclosure () -> String
    ) {
        record.limitIndex = request.limitIndex
        record.credential = request.credential
        if rejection != nil || record.errorType != nil { keepIfRejected(in: loop, &request, listener()) }
        let bytes = request.head.bytes.readableBytesUInt8Span
        let path = request.receivedTarget
        // Fields are searched only for a line that is written.
        let isLogged = loop.isLogged(record)
        let none = ByteRange(start: 0, count: 0)
        let host = isLogged ? request.hostRange ?? none : none
        let userAgent = isLogged ? request.head.fields.first { $0.name == .userAgent }?.valueRange ?? none : none
        loop.requestCompleted(
            record, method: bytes.extracting(request.head.method.start..<request.head.method.end),
            path: bytes.extracting(path.start..<path.end),
            host: bytes.extracting(host.start..<host.end),
            userAgent: bytes.extracting(userAgent.start..<userAgent.end),
            sentPath: request.sentPath.span.extracting(first: record.upstreamIndex < 0 ? 0 : .max))
    }

    /// Not those whose client has left: it does not ask, and event streams usually end so.
    private mutating func keepIfRejected(
        in loop: LoopTelemetry, _ request: inout InboundRequest, _ listener: String
    ) {
        let details = self.details
        rejection = nil
        let isRejected = details.code != nil || record.decision == .unauthenticated
        // Applications ask whether there is a session.
        if request.accountEndpoint == .currentSession, record.unauthorizedReason == .noSession { return }
        guard isRejected || record.errorType != nil && record.errorType != .clientClosed else { return }
        let (hasCookie, hasField) = (request.summary.hasSessionCookie, request.summary.hasAuthorization)
        let credentials: StaticString =
            hasCookie ? hasField ? "cookie and authorization" : "cookie" : hasField ? "authorization" : "none"
        let bytes = request.head.bytes.readableBytesUInt8Span
        let (path, host) = (request.receivedTarget, request.hostRange ?? ByteRange(start: 0, count: 0))
        loop.keepRejected(
            record, details, listener: listener, credentials: credentials,
            method: bytes.extracting(request.head.method.start..<request.head.method.end),
            path: bytes.extracting(path.start..<path.end), host: bytes.extracting(host.start..<host.end))
    }

    private func endClientSpan() {
        guard let span = clientSpan else { return }
        let status = record.upstreamStatus ?? record.status
        if status > 0 { span.attributes["http.response.status_code"] = Int64(status) }
        if let error = record.errorType, status == 0 {
            span.attributes["error.type"] = "\(error.label)"
        } else if status >= 400 {
            span.attributes["error.type"] = "\(status)"
        }
        if status == 0 || status >= 400 { span.setStatus(SpanStatus(code: .error)) }
        span.end()
    }

    private func endServerSpan() {
        guard let span = serverSpan else { return }
        if record.status > 0 { span.attributes["http.response.status_code"] = Int64(record.status) }
        if let error = record.errorType {
            span.attributes["error.type"] = "\(error.label)"
        } else if record.status >= 500 {
            span.attributes["error.type"] = "\(record.status)"
        }
        // 4xx responses are no errors of the server span.
        if record.status >= 500 || record.status == 0 { span.setStatus(SpanStatus(code: .error)) }
        span.end()
    }

    /// Time that the upstream has taken. The request may have been sent after the time of the event that is being
    /// handled.
    private func upstreamDuration(until now: UInt64) -> UInt64 { now > sentAt ? now &- sentAt : 0 }

    /// Propagates the span's context to the upstream, if the span has a span id. Third-party tracers may assign none.
    private mutating func propagate(_ span: any Span) {
        if let context = span.context.traceContext, context.spanID != 0 { traceContext = context }
    }
}
