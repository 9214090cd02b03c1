public import CloakroomCore
import Logging

extension AuditLog {
    /// Logs that an identity call had no usable result: which call, to which server, with which status, and which member
    /// of the response was expected. At most one line per 10 s and call is written, with the number of suppressed lines.
    /// - Parameter now: The wall-clock time.
    public func identityCallFailed(_ failure: IdentityCallFailure, now: WallTime) {
        guard let suppressed = failedCalls[failure.call]?.allow(at: now) else { return }
        var values: Logger.Metadata = [
            "event": "identity_call_failed", "call": "\(failure.call.rawValue)", "reason": "\(failure.defect.reason)",
            "method": "\(failure.method)", "server": "\(failure.server)", "path": "\(failure.path)",
            "duration_ms": .stringConvertible(failure.milliseconds), "suppressed": .stringConvertible(suppressed),
        ]
        switch failure.source {
        case .upstream(let name): values["upstream"] = "\(name)"
        case .identity(let name): values["identity"] = "\(name)"
        }
        if let status = failure.status { values["status"] = .stringConvertible(status) }
        if let key = failure.defect.key { values["key"] = "\(key)" }
        if let expected = failure.defect.expected { values["expected"] = "\(expected)" }
        if !failure.defect.found.isEmpty {
            values["found"] = .array(failure.defect.found.map { .string($0) })
        }
        if let hint = failure.hint { values["hint"] = "\(hint)" }
        logger.warning("identity call failed", metadata: values)
    }
}

extension IdentityCallFailure {
    /// The duration, rounded to whole milliseconds.
    public var milliseconds: UInt64 { (nanoseconds &+ 500_000) / 1_000_000 }

    /// What to check first; `nil` if the reason is enough.
    public var hint: String? {
        switch defect.reason {
        case "member_missing", "member_not_a_token":
            defect.key.map { "set \($0) to the member that has the token" }
        case "token_type_not_bearer": "only bearer tokens are supported"
        case "not_json", "not_an_object": "the response must be a JSON object; check the path of the call"
        case "access_token_rejected": "the server rejects the access token that it has just issued"
        case "user_id_missing": "set user.id to the member that has the user's id"
        case "other_user": "the server changed the user of a session during a refresh"
        case "contains_token": "the user's document must not contain tokens"
        case "unreachable", "timed_out": "check the address, the network and TLS from this machine"
        default: IdentityMisconfiguration(rawValue: defect.reason).map { "\($0.hint(in: call))" }
        }
    }
}
