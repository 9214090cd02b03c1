import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// What telemetry is told about an exchange.
extension Exchange {
    /// Tells telemetry, exactly once for every exchange, on whatever way it ended. Sending an answer may find that the
    /// client is gone, which is an end of its own: whoever comes second has nothing more to tell.
    func finish(errorType: ExchangeErrorType?) {
        guard releaseSnapshot() else { return }
        // Not the event's moment: what the gateway itself did since then belongs to the exchange.
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
        // A connection that rests must not keep what is no longer in effect.
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

    /// How long the upstream has taken. The request may have been sent later than at the moment of the event that is being
    /// handled.
    func upstreamDuration(until now: UInt64) -> UInt64 { now > requestSentAt ? now &- requestSentAt : 0 }

    /// Where path and query stand in the head; of an absolute target without what comes before.
    var receivedTarget: ByteRange {
        let isAbsolute = target.authority != nil && !target.isPathRewritten && head.target.count > target.path.start
        let start = head.target.start + (isAbsolute ? target.path.start : 0)
        return ByteRange(start: start, count: head.target.end - start)
    }

    /// Lets go of the head's bytes, and of the places in them: a head that was refused half-way has some already.
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
