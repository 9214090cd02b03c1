import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Sessions that are bound to the key of a device: a request has to prove that its client got a proof a few minutes ago.
extension RequestDecider {
    /// A lookup of a session for a request. Without its proof a session is missing: it is neither ended nor extended, and its
    /// cookie is not cleared, because the client may be a thief of the cookie.
    @inline(__always)
    func proven(_ lookup: SessionLookup, _ request: inout InboundRequest, now: WallTime) -> SessionLookup {
        guard let devices = config.devices, case .active(let session) = lookup, devices.concerns(session) else {
            return lookup
        }
        return prove(session, by: devices, &request, now: now) ? lookup : .missing(.unproven)
    }

    @inline(never)
    private func prove(
        _ session: Session, by devices: DeviceSessions, _ request: inout InboundRequest, now: WallTime
    ) -> Bool {
        let bytes = request.head.bytes
        let span = bytes.readableBytesUInt8Span
        var range = ByteRange(start: 0, count: 0)
        if case .value(let found) = request.otherCookies.bound { range = found }
        let check = devices.check(
            session, span.extracting(range.start..<range.end), accepted: &request.acceptedProof, now: now)
        if let check { request.checked = (session, check) }
        return check != .unproven
    }
}

extension Exchange {
    /// The session of the request needed the proof of a device: records the result, and a use only with a proof.
    @inline(never)
    func deviceChecked(now: UInt64) {
        let config = snapshot.config
        guard let (session, check) = request.checked, session.device != nil, let devices = config.devices else {
            return
        }
        guard check == .unproven else {
            config.telemetry.recordDeviceCheck(check)
            if !request.awaitsLimit { config.sessions.recordUse(of: session, now: context.sessionTime(at: now)) }
            return
        }
        telemetry.identified(session)
        devices.observer.accountEvent(
            .deviceCheck(check, session.id),
            from: AuditContext(peer: clientAddress, requestID: "\(telemetry.record.requestID)").about(session))
        guard let field = devices.challengeField(for: session.key, now: context.wallTime(at: now)) else { return }
        request.rateLines += Array("\(field.name): \(field.value)\r\n".utf8)
    }
}
