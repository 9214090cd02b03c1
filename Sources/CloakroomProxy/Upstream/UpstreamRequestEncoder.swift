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
    let permit: UpstreamPermit
    let cookie: SessionCookie
    let context: LoopContext

    /// - Parameters:
    ///   - requestID: Sent unless the request has one of a trusted client.
    ///   - traceContext: Context of the client span; `nil` for none.
    func write(
        _ request: borrowing InboundRequest, from peer: borrowing Peer, requestID: ID128, traceContext: TraceContext?,
        into buffer: inout ByteBuffer
    ) {
        let head = request.head
        let bytes = head.bytes.readableBytesSpan
        buffer.writeBytes(bytes.extracting(head.method.start..<(head.method.end + 1)))
        writeTarget(of: request, bytes, into: &buffer)
        buffer.writeStaticString(" HTTP/1.1\r\nHost: ")
        if upstream.configuration.preserveHost, let host = request.hostRange {
            buffer.writeBytes(bytes.extracting(host.start..<host.end))
        } else {
            buffer.writeBytes(upstream.hosts[targetIndex])
        }
        buffer.writeStaticString("\r\n")
        buffer.writeFields(of: head.fields, bytes, end: bytes.byteCount - 2)
        if request.summary.hasSessionCookie { writeOtherCookies(head, into: &buffer) }
        writeForwarding(of: request, from: peer, bytes, into: &buffer)
        writeTrace(of: request, bytes, requestID: requestID, traceContext: traceContext, into: &buffer)
        if permit.includesAPIToken { buffer.writeBytes(upstream.apiTokenLine) }
        if let authorization = permit.authorization {
            buffer.writeStaticString("Authorization: ")
            buffer.writeBytes(authorization.bytes)
            buffer.writeStaticString("\r\n")
        }
        writeUpgrade(request.upgrade, into: &buffer)
        if request.summary.acceptsTrailers, request.upgrade == .none {
            // `TE` is a hop-by-hop field and is regenerated for the upstream hop (RFC 9110 §10.1.4).
            buffer.writeStaticString("TE: trailers\r\nConnection: TE\r\n")
        }
        if case .value(let left) = request.summary.maxForwards, left > 0 {
            buffer.writeString("Max-Forwards: \(left - 1)\r\n")
        }
        if request.framing == .chunked { buffer.writeStaticString("Transfer-Encoding: chunked\r\n") }
        buffer.writeStaticString("\r\n")
    }

    private func writeTarget(of request: borrowing InboundRequest, _ bytes: RawSpan, into buffer: inout ByteBuffer) {
        let range = request.head.target
        let target = request.target
        if target.isPathRewritten {
            buffer.writeBytes(request.normalizedPath)
        } else if target.path.isEmpty {
            buffer.writeStaticString("/")
        } else {
            let start = range.start + target.path.start
            buffer.writeBytes(bytes.extracting(start..<(start + target.path.count)))
        }
        if !target.query.isEmpty {
            let start = range.start + target.query.start
            buffer.writeBytes(bytes.extracting(start..<(start + target.query.count)))
        }
    }

    private func writeOtherCookies(_ head: borrowing RequestHead, into buffer: inout ByteBuffer) {
        let bytes = head.bytes.readableBytesUInt8Span
        var hasWritten = false
        for field in head.fields where field.name == .cookie {
            hasWritten = cookie.writeOtherCookies(
                of: field, from: bytes, into: &buffer, hasWritten: hasWritten)
        }
        if hasWritten { buffer.writeStaticString("\r\n") }
    }

    /// Writes the forwarding fields (RFC 7239; RFC 9110 §7.6.3). Those of an untrusted peer have been stripped; those
    /// of a trusted peer are kept.
    private func writeForwarding(
        of request: borrowing InboundRequest, from peer: borrowing Peer, _ bytes: RawSpan, into buffer: inout ByteBuffer
    ) {
        let summary = request.summary
        if request.version == .http1_1, !summary.trustsForwardedProto {
            buffer.writeBytes(peer.commonFieldLines)
        } else {
            buffer.writeBytes(peer.certificateLine)
            switch request.version {
            case .http1_0: buffer.writeStaticString("Via: 1.0 cloakroom\r\n")
            case .http1_1: buffer.writeStaticString("Via: 1.1 cloakroom\r\n")
            case .http2: buffer.writeStaticString("Via: 2.0 cloakroom\r\n")
            }
            buffer.writeBytes(peer.forwardedForLine)
            if !summary.trustsForwardedProto { buffer.writeBytes(peer.forwardedProtoLine) }
            buffer.writeBytes(peer.forwardedPrefix)
        }
        if let host = request.hostRange {
            let host = bytes.extracting(host.start..<host.end)
            buffer.writeStaticString(";host=\"")
            buffer.writeBytes(host)
            buffer.writeStaticString(summary.trustsForwardedHost ? "\"\r\n" : "\"\r\nX-Forwarded-Host: ")
            if !summary.trustsForwardedHost {
                buffer.writeBytes(host)
                buffer.writeStaticString("\r\n")
            }
        } else {
            buffer.writeStaticString("\r\n")
        }
    }

    /// Writes the hop-by-hop fields of an upgrade for the upstream hop (RFC 6455 §4.1; RFC 8441 §5).
    private func writeUpgrade(_ upgrade: RequestedUpgrade, into buffer: inout ByteBuffer) {
        switch upgrade {
        case .none, .unknown: return
        case .webSocketUpgrade: break
        case .webSocketConnect:
            // HTTP/2 has no key, HTTP/1.1 requires one. Any value works: it only proves that the upstream read the
            // request.
            buffer.writeStaticString("Sec-WebSocket-Key: ")
            buffer.writeString(WebSocketKey.make(context.random(), context.random()))
            buffer.writeStaticString("\r\n")
        }
        buffer.writeStaticString("Connection: Upgrade\r\nUpgrade: websocket\r\n")
    }

    private func writeTrace(
        of request: borrowing InboundRequest, _ bytes: RawSpan, requestID: ID128, traceContext: TraceContext?,
        into buffer: inout ByteBuffer
    ) {
        if let id = request.summary.requestID {
            // A trusted peer's request id is kept, so its logs match those of the upstream.
            buffer.writeStaticString("X-Request-Id: ")
            buffer.writeBytes(bytes.extracting(id.start..<id.end))
            buffer.writeStaticString("\r\n")
            if let traceContext { context.traceLines.write(traceContext, into: &buffer) }
        } else {
            context.traceLines.write(requestID: requestID, context: traceContext, into: &buffer)
        }
        request.traceFields.writeTracestate(of: request.head, into: &buffer)
    }
}

extension ByteBuffer {
    /// Copies the lines of all fields that are not stripped, each run of adjacent lines in one write.
    /// - Parameter end: Offset of the empty line.
    mutating func writeFields(of fields: [FieldSlice], _ bytes: RawSpan, end: Int) {
        guard let first = fields.first else { return }
        var runStart = Int(first.nameStart)
        for index in fields.indices where fields[index].isStripped {
            let start = Int(fields[index].nameStart)
            if start > runStart { writeBytes(bytes.extracting(runStart..<start)) }
            runStart = index + 1 < fields.count ? Int(fields[index + 1].nameStart) : end
        }
        if end > runStart { writeBytes(bytes.extracting(runStart..<end)) }
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
