import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import Tracing

/// Reports exchanges to telemetry.
extension Exchange {
    /// Reports the exchange to telemetry, exactly once, however it ended. Writing a response may detect that the client
    /// disconnected, which also ends the exchange; the second call has no effect.
    func finish(errorType: ExchangeErrorType?) {
        guard releaseSnapshot() else { return }
        // Read from the clock, not from the event's time: the gateway's own processing since then is part of the
        // duration.
        let now = NIODeadline.now().uptimeNanoseconds
        record.errorType = errorType
        record.durationNanoseconds = now &- startedAt
        record.bytesReceived = UInt64(receivedBodyBytes)
        if requestSentAt != 0, record.upstreamDurationNanoseconds == nil {
            record.upstreamDurationNanoseconds = upstreamDuration(until: context.now)
        }
        endTrace(record)
        let bytes = head.bytes
        let span = bytes.readableBytesUInt8Span
        let path = receivedTarget
        snapshot.telemetry.requestCompleted(
            record, method: span.extracting(head.method.start..<head.method.end),
            path: span.extracting(path.start..<path.end))
        snapshot.release()
        // Release the old snapshot: an idle connection must not retain it.
        adoptCurrentSnapshot()
        resetHead()
        permit = nil
        pool = nil
        ticket = nil
        accountEndpoint = nil
        requestSentAt = 0
        bufferedBody = ByteBuffer()
        buffersForReplay = false
        tokenRejections = 0
    }

    /// Time that the upstream has taken. The request may have been sent after the time of the event that is being
    /// handled.
    func upstreamDuration(until now: UInt64) -> UInt64 { now > requestSentAt ? now &- requestSentAt : 0 }

    /// Range of path and query in the head; for an absolute-form target without scheme and authority.
    var receivedTarget: ByteRange {
        let isAbsolute = target.authority != nil && !target.isPathRewritten && head.target.count > target.path.start
        let start = head.target.start + (isAbsolute ? target.path.start : 0)
        return ByteRange(start: start, count: head.target.end - start)
    }

    /// Releases the head's bytes and resets the ranges into them: a head that was rejected while being parsed may have
    /// set some.
    func resetHead() {
        head.reset()
        head.method = ByteRange(start: 0, count: 0)
        head.target = ByteRange(start: 0, count: 0)
    }

    func beginRecord(now: UInt64) {
        retainSnapshot()
        record = ExchangeRecord()
        originMatch = .notEvaluated
        let bytes = head.bytes
        record.method = RequestMethod(
            bytes.readableBytesUInt8Span.extracting(head.method.start..<head.method.end))
        record.scheme = peer.scheme
        record.protocolVersion = protocolVersion
        record.startWallNanoseconds = context.wallNanoseconds(at: now)
        record.requestID = ID128(high: context.random(), low: context.random())
        record.peerAddress = peer.address
        record.tlsVersion = peer.tlsVersion
        snapshot.telemetry.requestStarted(scheme: record.scheme, method: record.method)
    }
}

/// Trace context of an exchange, and its spans if it is sampled.
struct ExchangeTrace {
    /// Context received from a trusted client.
    var incoming: TraceContext?
    /// Context sent to the upstream.
    var outgoing: TraceContext?
    /// Ranges of the trace fields in a trusted client's request, including its vendor data (`tracestate`).
    var fields = TraceContextFields()
    var server: (any Span)?
    var client: (any Span)?
}

extension Exchange {
    /// Reads the trace context of a trusted client; that of an untrusted peer is ignored (W3C Trace Context §7.3).
    func extractTraceContext(_ span: Swift.Span<UInt8>) {
        guard peer.isTrusted else { return }
        let fields = TraceContextFields.read(head)
        guard let range = fields.parent,
            let incoming = TraceContext(traceparent: span.extracting(range.start..<range.end))
        else { return }
        trace.incoming = incoming
        trace.fields = fields
    }

    /// Decides whether the request is sampled, and starts its server span if so. Otherwise the context is only
    /// propagated.
    func beginTrace() {
        let child = snapshot.config.telemetry.tracer.childContext(of: trace.incoming)
        trace.outgoing = child
        record.traceID = child.traceID
        guard child.isSampled, let tracer = snapshot.config.tracer else { return }
        // The sampling decision is passed as the parent: a root context without a span id.
        var serviceContext = ServiceContext.topLevel
        serviceContext.traceContext =
            trace.incoming ?? TraceContext(traceID: child.traceID, spanID: 0, flags: child.flags)
        let span = tracer.startAnySpan(
            "\(record.method.label) \(routeName)", context: serviceContext, ofKind: .server)
        span.attributes["http.request.method"] = "\(record.method.label)"
        if let pattern = routePattern { span.attributes["http.route"] = pattern }
        span.attributes["url.path"] = receivedPath
        span.attributes["url.scheme"] = "\(record.scheme.name)"
        span.attributes["network.protocol.version"] = "\(record.protocolVersion.name)"
        span.attributes["client.address"] = record.peerAddress
        if let stranger = untrustedTraceContext {
            var linked = ServiceContext.topLevel
            linked.traceContext = stranger
            span.addLink(SpanLink(context: linked, attributes: [:]))
        }
        trace.server = span
        propagate(span)
    }

    /// Context received from an untrusted peer. Its trace is not continued; the server span links to it.
    private var untrustedTraceContext: TraceContext? {
        guard !peer.isTrusted, let range = TraceContextFields.read(head).parent else { return nil }
        let bytes = head.bytes
        return TraceContext(traceparent: bytes.readableBytesUInt8Span.extracting(range.start..<range.end))
    }

    /// The path as sent by the client, up to the length that may be logged.
    private var receivedPath: String {
        let range = receivedTarget
        let bytes = head.bytes
        let told = ExchangeRecord.loggablePathLength(
            ofPath: bytes.readableBytesUInt8Span.extracting(range.start..<range.end))
        return String(
            decoding: bytes.getBytes(at: bytes.readerIndex + range.start, length: told) ?? [], as: UTF8.self)
    }

    private var routeName: String {
        let names = snapshot.telemetry.routes
        return names.indices.contains(record.routeIndex) ? names[record.routeIndex] : LoopTelemetry.unmatchedRoute
    }

    private var routePattern: String? {
        let routes = snapshot.config.routes
        guard routes.indices.contains(record.routeIndex) else { return nil }
        return routes[record.routeIndex].route.pattern.description
    }

    /// Starts the client span of one attempt.
    func startClientSpan(_ upstream: UpstreamRuntime, _ connection: UpstreamConnection, now: UInt64) {
        guard let server = trace.server, let tracer = snapshot.config.tracer else { return }
        let span = tracer.startAnySpan(
            "\(record.method.label)", context: server.context, ofKind: .client)
        let target = upstream.configuration.targets[connection.targetIndex]
        span.attributes["http.request.method"] = "\(record.method.label)"
        span.attributes["server.address"] = target.serverAddress
        if let port = target.serverPort { span.attributes["server.port"] = Int64(port) }
        if record.retries > 0 { span.attributes["http.request.resend_count"] = Int64(record.retries) }
        trace.client = span
        propagate(span)
    }

    /// Propagates the span's context to the upstream, if the span has a span id. Third-party tracers may assign none.
    private func propagate(_ span: any Span) {
        if let context = span.context.traceContext, context.spanID != 0 { trace.outgoing = context }
    }

    /// Ends the client span of an attempt that failed.
    func endAttempt(failure: UpstreamFailure) {
        guard let span = trace.client else { return }
        span.attributes["error.type"] = "\(failure.label.label)"
        span.setStatus(SpanStatus(code: .error))
        span.end()
        trace.client = nil
    }

    /// Ends the client span of an attempt whose token was rejected by the upstream.
    func endRejectedAttempt() {
        guard let span = trace.client else { return }
        span.attributes["http.response.status_code"] = Int64(401)
        span.attributes["error.type"] = "401"
        span.setStatus(SpanStatus(code: .error))
        span.end()
        trace.client = nil
    }

    /// Ends the open spans.
    func endTrace(_ record: ExchangeRecord) {
        if let span = trace.client {
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
        if let span = trace.server {
            span.attributes["http.response.status_code"] = Int64(record.status)
            if let error = record.errorType {
                span.attributes["error.type"] = "\(error.label)"
            } else if record.status >= 500 {
                span.attributes["error.type"] = "\(record.status)"
            }
            // 4xx responses are no errors of the server span.
            if record.status >= 500 || record.status == 0 { span.setStatus(SpanStatus(code: .error)) }
            span.end()
        }
        trace = ExchangeTrace()
    }
}
