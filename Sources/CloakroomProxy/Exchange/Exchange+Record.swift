import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

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
