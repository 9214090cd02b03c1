import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import FoundationEssentials
import NIOCore

/// Writes the request head sent to the upstream. Fields that the header policy kept are copied unchanged, in contiguous
/// runs; the fields set by the gateway follow, each once.
struct UpstreamRequestEncoder {
    let upstream: UpstreamRuntime
    /// Index of the target among those of the upstream.
    let targetIndex: Int
    let credentials: UpstreamPermit.Credentials
    let permit: UpstreamPermit
    let config: ConfigSnapshot
    let context: LoopContext

    /// Writes the head at the end of the buffer.
    /// - Parameters:
    ///   - request: Not changed; `inout`, because a property of a class would be copied for a borrow, at ten retains a
    ///     request.
    ///   - route: The one that serves the request.
    ///   - requestID: Sent unless the request has one of a trusted client.
    ///   - traceContext: Context of the client span; `nil` for none.
    func write(
        _ request: inout InboundRequest, of route: RouteRuntime, from peer: Peer, requestID: ID128,
        traceContext: TraceContext?, into buffer: inout ByteBuffer
    ) {
        let size = length(request.head.bytes.readableBytes, route) + peer.commonFieldLines.count
        buffer.writeHead(reserving: size, from: &request) { writer, request in
            write(request, of: route, from: peer, requestID: requestID, traceContext: traceContext, into: &writer)
        }
    }

    /// The expected length of the request's own fields and those that the gateway sets, in bytes.
    /// - Parameter received: The length of the head that was received. The request itself would be copied.
    private func length(_ received: Int, _ route: RouteRuntime) -> Int {
        received + upstream.apiTokenLine.count
            + (credentials.authorization?.bytes.count ?? 0) + (credentials.claimLines?.count ?? 0)
            + (route.requestFields?.length ?? 0) + (upstream.bearerStart?.count ?? 0) + Self.reserve
    }

    private func write(
        _ request: borrowing InboundRequest, of route: RouteRuntime, from peer: Peer, requestID: ID128,
        traceContext: TraceContext?, into writer: inout HeadWriter
    ) {
        let bytes = request.head.bytes.readableBytesSpan
        writeStart(of: request, bytes, into: &writer)
        writeForwarding(of: request, from: peer, bytes, into: &writer)
        if let prefix = route.rewrite?.removedPrefix, !prefix.isEmpty {
            writer.append("X-Forwarded-Prefix: ")
            if let outer = request.forwardedPrefix { writer.append(bytes, outer) }
            writer.append(prefix)
            writer.append("\r\n")
        }
        writeTrace(of: request, requestID: requestID, traceContext: traceContext, into: &writer)
        if let fields = route.requestFields {
            fields.write(to: &writer) { write($0, of: request, from: peer, requestID: requestID, into: &$1) }
        }
        writeOwnFields(of: request, into: &writer)
    }

    /// The fields that the upstream gets from the gateway alone, and the client's other cookies.
    /// - Returns: Complete field lines, with room for more.
    func injectedLines(
        _ request: inout InboundRequest, of route: RouteRuntime, from peer: Peer, requestID: ID128
    ) -> [UInt8] {
        [UInt8](reserving: length(request.head.bytes.readableBytes, route), from: &request) { writer, request in
            if let fields = route.requestFields {
                fields.write(to: &writer) { write($0, of: request, from: peer, requestID: requestID, into: &$1) }
            }
            writeCredentials(into: &writer)
            if route.credentials == .pass, let value = request.value(of: .authorization) {
                writer.append("Authorization: ")
                writer.append(value)
                writer.append("\r\n")
            }
            if request.otherCookies.hasForeign { writeOtherCookies(request.head, into: &writer) }
        }
    }

    /// Writes the value of a placeholder in a field of the route, or nothing if the request has none. Bytes of clients
    /// and users are percent-encoded: those of the path by its normal form, the others as claims are.
    private func write(
        _ value: FieldChanges.Value, of request: borrowing InboundRequest, from peer: Peer, requestID: ID128,
        into writer: inout HeadWriter
    ) {
        switch value {
        case .requestID: request.writeID(requestID, into: &writer)
        case .clientAddress:
            let trusted = config.configuration.trustedProxies
            writer.append(text: peer.clientAddress(of: request.head, trusted: trusted))
        case .userID:
            if let id = permit.session?.user.account.userID, case .value(let text) = ClaimFieldValue.of(.string(id)) {
                writer.append(text: text)
            }
        case .site: writer.append(text: config.siteName(ofGroup: request.routeGroup) ?? "")
        case .segment(let slashes):
            let path = request.normalPath
            writer.append(path.span.bytes.extracting(PathRewrite.segment(after: slashes, of: path.span)))
        }
    }

    /// Space for the names of the gateway's fields, the trace and the host, which is written three times.
    private static let reserve = 512

    /// Writes the request line, `Host`, and the client's fields.
    private func writeStart(of request: borrowing InboundRequest, _ bytes: RawSpan, into writer: inout HeadWriter) {
        writer.append(bytes, request.head.method)
        writer.append(" ")
        writeTarget(of: request, bytes, into: &writer)
        writer.append(" HTTP/1.1\r\nHost: ")
        if upstream.configuration.preserveHost, let host = request.hostRange {
            writer.append(bytes, host)
        } else {
            writer.append(upstream.hosts[targetIndex])
        }
        writer.append("\r\n")
        writer.append(fields: request.head.fields, of: bytes, end: bytes.byteCount - 2)
        if request.summary.rewritesCookies { writeOtherCookies(request.head, into: &writer) }
    }

    private func writeCredentials(into writer: inout HeadWriter) {
        if credentials.includesAPIToken { writer.append(upstream.apiTokenLine) }
        if let authorization = credentials.authorization {
            if let start = upstream.bearerStart {
                writer.append(start)
                let bytes = authorization.bytes
                let first = min(InjectedSecrets.schemeLength, bytes.count)
                writer.append(bytes.span.bytes.extracting(first..<bytes.count))
            } else {
                writer.append("Authorization: ")
                writer.append(authorization.bytes)
            }
            writer.append("\r\n")
        }
        if let lines = credentials.claimLines { writer.append(lines) }
    }

    /// Writes the credentials, the fields of this hop, and the end of the head.
    private func writeOwnFields(of request: borrowing InboundRequest, into writer: inout HeadWriter) {
        writeCredentials(into: &writer)
        writeUpgrade(request.upgrade, into: &writer)
        if request.summary.acceptsTrailers, request.upgrade == .none {
            // `TE` is a hop-by-hop field and is regenerated for the upstream hop (RFC 9110 §10.1.4).
            writer.append("TE: trailers\r\nConnection: TE\r\n")
        }
        if case .value(let left) = request.summary.maxForwards, left > 0 {
            writer.append(text: "Max-Forwards: \(left - 1)\r\n")
        }
        if request.framing == .chunked { writer.append("Transfer-Encoding: chunked\r\n") }
        writer.append("\r\n")
    }

    private func writeTarget(of request: borrowing InboundRequest, _ bytes: RawSpan, into writer: inout HeadWriter) {
        let start = request.head.target.start
        if !request.sentPath.isEmpty {
            writer.append(request.sentPath)
        } else if request.target.isPathRewritten {
            writer.append(request.normalizedPath)
        } else if request.target.path.isEmpty {
            writer.append("/")
        } else {
            writer.append(
                bytes, ByteRange(start: start + request.target.path.start, count: request.target.path.count))
        }
        if !request.target.query.isEmpty {
            writer.append(
                bytes, ByteRange(start: start + request.target.query.start, count: request.target.query.count))
        }
    }

    private func writeOtherCookies(_ head: borrowing RequestHead, into writer: inout HeadWriter) {
        let bytes = head.bytes.readableBytesUInt8Span
        var hasWritten = false
        for field in head.fields where field.name == .cookie {
            hasWritten = config.cookie.writeOtherCookies(
                of: field, from: bytes, into: &writer, hasWritten: hasWritten)
        }
        if hasWritten { writer.append("\r\n") }
    }

    /// Writes the forwarding fields (RFC 7239; RFC 9110 §7.6.3). Those of an untrusted peer have been stripped; those
    /// of a trusted peer are kept.
    private func writeForwarding(
        of request: borrowing InboundRequest, from peer: Peer, _ bytes: RawSpan, into writer: inout HeadWriter
    ) {
        let trustsHost = request.summary.trustsForwardedHost
        if !request.summary.trustsForwardedProto, request.version != .http1_0 {
            writer.append(request.version == .http2 ? peer.commonHTTP2FieldLines : peer.commonFieldLines)
        } else {
            writer.append(peer.certificateLine)
            switch request.version {
            case .http1_0: writer.append("Via: 1.0 cloakroom\r\n")
            case .http1_1: writer.append("Via: 1.1 cloakroom\r\n")
            case .http2: writer.append("Via: 2.0 cloakroom\r\n")
            }
            writer.append(peer.forwardedForLine)
            if !request.summary.trustsForwardedProto { writer.append(peer.forwardedProtoLine) }
            writer.append(peer.forwardedPrefix)
        }
        guard let host = request.hostRange else { return writer.append("\r\n") }
        writer.append(";host=\"")
        writer.append(bytes, host)
        guard !trustsHost else { return writer.append("\"\r\n") }
        writer.append("\"\r\nX-Forwarded-Host: ")
        writer.append(bytes, host)
        writer.append("\r\n")
    }

    /// Writes the hop-by-hop fields of an upgrade for the upstream hop (RFC 6455 §4.1; RFC 8441 §5).
    private func writeUpgrade(_ upgrade: RequestedUpgrade, into writer: inout HeadWriter) {
        switch upgrade {
        case .none, .unknown: return
        case .webSocketUpgrade: break
        case .webSocketConnect:
            // HTTP/2 has no key, HTTP/1.1 requires one. Any value works: it only proves that the upstream read the
            // request.
            writer.append("Sec-WebSocket-Key: ")
            writer.append(text: WebSocketKey.make(context.random(), context.random()))
            writer.append("\r\n")
        }
        writer.append("Connection: Upgrade\r\nUpgrade: websocket\r\n")
    }

    private func writeTrace(
        of request: borrowing InboundRequest, requestID: ID128, traceContext: TraceContext?,
        into writer: inout HeadWriter
    ) {
        writer.append("X-Request-Id: ")
        request.writeID(requestID, into: &writer)
        writer.append("\r\n")
        if let traceContext { writer.append(traceContext) }
        request.traceFields.writeTracestate(of: request.head, into: &writer)
    }
}

extension HeadWriter {
    mutating func append(_ id: ID128) {
        appendHex(id.high)
        appendHex(id.low)
    }

    /// Appends the line `traceparent` (W3C Trace Context §3.2).
    fileprivate mutating func append(_ context: TraceContext) {
        append("traceparent: 00-")
        append(context.traceID)
        append("-")
        appendHex(context.spanID)
        // Only two flags are defined, so the first digit is always 0 (W3C Trace Context §3.2.2.5).
        switch context.flags & 0x03 {
        case 0: append("-00\r\n")
        case 1: append("-01\r\n")
        case 2: append("-02\r\n")
        default: append("-03\r\n")
        }
    }
}

/// The `Sec-WebSocket-Key` of an upgrade, to which the response must correspond (RFC 6455 §4.1).
enum WebSocketKey {
    /// Encodes sixteen bytes in Base64.
    static func make(_ high: UInt64, _ low: UInt64) -> String {
        var bytes = Data()
        for word in [high, low] {
            withUnsafeBytes(of: word) { bytes.append(contentsOf: $0) }
        }
        return bytes.base64EncodedString()
    }
}
