import NIOCore

/// Frames that control streams and the connection.
extension HTTP2Connection {
    mutating func takeWindowUpdate(_ frame: FrameHeader, _ payload: Span<UInt8>, now: UInt64) -> HTTP2Event? {
        guard payload.count == 4 else { return fail(.frameSizeError) }
        let increment = Int(payload.uint32(at: 0) & 0x7fff_ffff)
        guard frame.streamID != 0 else {
            guard increment > 0 else { return fail(.protocolError) }
            let wasBlocked = sendWindow <= 0
            if wasBlocked { chargeUnblocking(by: increment, now: now) }
            sendWindow += increment
            guard sendWindow <= Self.maximumWindow else { return fail(.flowControlError) }
            return wasBlocked && !queue.isEmpty ? .sendWindowOpened : nil
        }
        guard let slot = streams.slot(of: frame.streamID) else { return takeLateFrame(frame) }
        guard increment > 0 else { return fail(slot: slot, .protocolError, .provokedReset, now: now) }
        if streams[slot].sendWindow <= 0, streams[slot].pendingBytes > 0 {
            chargeUnblocking(by: increment, now: now)
        }
        streams[slot].sendWindow += increment
        guard streams[slot].sendWindow <= Self.maximumWindow else {
            return fail(slot: slot, .flowControlError, .provokedReset, now: now)
        }
        return enqueue(slot) ? .sendWindowOpened : nil
    }

    /// A window that is opened by a few bytes costs the gateway more than the client (CVE-2019-9511).
    private mutating func chargeUnblocking(by increment: Int, now: UInt64) {
        if increment < Self.tinyIncrement { budget.charge(.emptyFrame, at: now) }
    }

    mutating func takeReset(_ frame: FrameHeader, _ payload: Span<UInt8>, now: UInt64) -> HTTP2Event? {
        guard payload.count == 4 else { return fail(.frameSizeError) }
        guard let slot = streams.slot(of: frame.streamID) else {
            budget.charge(.smallFrame, at: now)
            return takeLateFrame(frame)
        }
        budget.charge(.cancelledRequest, at: now)
        close(slot, .ended)
        return .closed(slot: slot, nil)
    }

    /// A frame on a stream that is closed, which the client may not know yet (RFC 9113 §5.1).
    private mutating func takeLateFrame(_ frame: FrameHeader) -> HTTP2Event? {
        guard frame.streamID & 1 == 1, frame.streamID <= lastStreamID else { return fail(.protocolError) }
        return nil
    }

    mutating func takePriority(_ frame: FrameHeader, _ payload: Span<UInt8>, now: UInt64) -> HTTP2Event? {
        guard frame.streamID != 0 else { return fail(.protocolError) }
        budget.charge(.smallFrame, at: now)
        let dependsOnItself = payload.count == 5 && payload.uint32(at: 0) & 0x7fff_ffff == frame.streamID
        guard payload.count != 5 || dependsOnItself else { return nil }
        let code: HTTP2ErrorCode = dependsOnItself ? .protocolError : .frameSizeError
        guard let slot = streams.slot(of: frame.streamID) else {
            // There is no stream to reset: PRIORITY is permitted in any state (RFC 9113 §6.3).
            return fail(code)
        }
        return fail(slot: slot, code, .provokedReset, now: now)
    }

    mutating func takePing(_ frame: FrameHeader, _ payload: Span<UInt8>, now: UInt64) -> HTTP2Event? {
        guard frame.streamID == 0 else { return fail(.protocolError) }
        guard payload.count == 8 else { return fail(.frameSizeError) }
        budget.charge(.smallFrame, at: now)
        guard !frame.has(FrameFlag.acknowledgement) else {
            guard awaitsPing, payload.uint32(at: 0) == 0, payload.uint32(at: 4) == 0 else { return nil }
            awaitsPing = false
            return .shutdownAcknowledged
        }
        unsentReplies += 1
        FrameHeader(length: 8, type: FrameType.ping, flags: FrameFlag.acknowledgement).write(to: &output)
        output.writeBytes(payload.bytes)
        return nil
    }

    mutating func takeSettings(_ frame: FrameHeader, _ payload: Span<UInt8>, now: UInt64) -> HTTP2Event? {
        guard frame.streamID == 0 else { return fail(.protocolError) }
        if frame.has(FrameFlag.acknowledgement) {
            guard hasSettings else { return fail(.protocolError) }
            guard payload.isEmpty else { return fail(.frameSizeError) }
            budget.charge(.smallFrame, at: now)
            return nil
        }
        guard payload.count % 6 == 0 else { return fail(.frameSizeError) }
        if hasSettings { budget.charge(.settings, at: now) }
        var offset = 0
        var opensWindow = false
        while offset < payload.count {
            // Each may concern all streams.
            if offset >= Self.freeSettingsLength { budget.charge(.emptyFrame, at: now) }
            let value = Int(payload.uint32(at: offset + 2))
            if let code = apply(payload.uint16(at: offset), value, &opensWindow) { return fail(code) }
            offset += 6
        }
        unsentReplies += 1
        FrameHeader(length: 0, type: FrameType.settings, flags: FrameFlag.acknowledgement).write(to: &output)
        defer { hasSettings = true }
        return hasSettings ? (opensWindow ? .sendWindowOpened : nil) : .settingsReceived
    }

    /// Length of a SETTINGS payload whose entries are not charged one by one, in bytes: 32 entries.
    private static let freeSettingsLength = 192

    /// Applies a setting of the client (RFC 9113 §6.5.2).
    /// - Returns: An error of the connection.
    private mutating func apply(_ parameter: UInt16, _ value: Int, _ opensWindow: inout Bool) -> HTTP2ErrorCode? {
        switch parameter {
        case SettingsParameter.headerTableSize:
            encoder.setPeerTableLimit(value)
        case SettingsParameter.enablePush, SettingsParameter.enableConnectProtocol, SettingsParameter.noPriorities:
            guard value <= 1 else { return .protocolError }
        case SettingsParameter.initialWindowSize:
            guard value <= Self.maximumWindow else { return .flowControlError }
            let delta = value - initialSendWindow
            initialSendWindow = value
            for slot in 0..<streams.slotCount where streams.id(at: slot) != 0 {
                streams[slot].sendWindow += delta
                guard streams[slot].sendWindow <= Self.maximumWindow else { return .flowControlError }
                if delta > 0, enqueue(slot) { opensWindow = true }
            }
        case SettingsParameter.maxFrameSize:
            guard value >= FrameHeader.maximumLength, value < 1 << 24 else { return .protocolError }
        default:
            break
        }
        return nil
    }

    /// Writes the server's SETTINGS.
    mutating func writeSettings() {
        let settings: [(UInt16, Int)] = [
            (SettingsParameter.maxConcurrentStreams, configuration.concurrentStreams),
            (SettingsParameter.initialWindowSize, configuration.initialStreamWindow),
            (SettingsParameter.maxHeaderListSize, configuration.headerListSize),
            (SettingsParameter.enableConnectProtocol, 1),
            (SettingsParameter.noPriorities, 1),
        ]
        FrameHeader(length: settings.count * 6, type: FrameType.settings).write(to: &output)
        for (parameter, value) in settings {
            output.writeMultipleIntegers(parameter, UInt32(truncatingIfNeeded: value))
        }
    }
}

/// Parameters of SETTINGS (RFC 9113 §6.5.2; RFC 8441 §3; RFC 9218 §2.1).
private enum SettingsParameter {
    static let headerTableSize: UInt16 = 1
    static let enablePush: UInt16 = 2
    static let maxConcurrentStreams: UInt16 = 3
    static let initialWindowSize: UInt16 = 4
    static let maxFrameSize: UInt16 = 5
    static let maxHeaderListSize: UInt16 = 6
    static let enableConnectProtocol: UInt16 = 8
    static let noPriorities: UInt16 = 9
}
