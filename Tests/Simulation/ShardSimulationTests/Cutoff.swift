import CloakroomCore

@testable import CloakroomSessions

/// The time at which all sessions of an account have ended, and the one that is kept, as ``SessionScripts/cutoff`` and
/// ``ReassertionScripts`` store it. Times are in microseconds.
struct Cutoff {
    var time: Int64 = 0
    var keeps: SessionID?
    /// When the kept session was born; `nil` if it is not known.
    var birth: Int64?
    var request: (time: Int64, keeps: SessionID?)?

    /// The value in the server; `nil` if it has none.
    var stored: String? {
        guard time > 0 || request != nil else { return nil }
        let birth = keeps == nil ? nil : birth
        return "\(time) \(Self.text(keeps)) -" + (birth.map { " \($0)" } ?? "")
            + (request.map { " r\($0.time):\(Self.text($0.keeps))" } ?? "")
    }

    private static func text(_ id: SessionID?) -> String { id.map { "\($0)" } ?? "-" }

    /// Ends all sessions.
    /// - Parameters:
    ///   - latest: The latest birth in the index.
    ///   - keepsEnded: Whether a session is kept although an earlier cutoff has ended it.
    func set(keeping kept: KeptSession?, latest: Int64, now: Int64, keepsEnded: Bool) -> Cutoff {
        func hasEnded(_ time: Int64, _ keeps: SessionID?) -> Bool {
            time > 0 && keeps != kept?.id && (kept?.birth ?? 0) <= time
        }
        let isLater = request.map { $0.time > time && hasEnded($0.time, $0.keeps) } ?? false
        let isEnded = !keepsEnded && (hasEnded(time, keeps) || isLater)
        var next = Cutoff(time: max(now, time + 1, latest, request?.time ?? 0))
        next.keeps = isEnded ? nil : kept?.id
        next.birth = keeps == kept?.id ? birth : kept.flatMap { $0.birth == 0 ? nil : $0.birth }
        return next
    }

    /// Writes a cutoff again, like the gateway's journal merges two.
    /// - Returns: `nil` if nothing changes.
    func repeated(_ other: Cutoff) -> Cutoff? {
        guard let own = journaled, let other = other.journaled else { return nil }
        var merged = own
        merged.merge(other)
        guard merged != own else { return nil }
        var next = Cutoff(time: merged.time, keeps: SessionID(merged.kept), birth: merged.keptBirth)
        if let request, request.time > next.time { next.request = request }
        return next
    }

    private var journaled: JournaledCutoff? { JournaledCutoff(key: "", stored: stored ?? "0 - -", lifetime: .zero) }

    /// Writes a cutoff that may never have been set.
    /// - Returns: `nil` if there is a later one.
    func requested(_ time: Int64, keeping kept: SessionID?) -> Cutoff? {
        guard max(self.time, request?.time ?? 0) < time else { return nil }
        var next = self
        next.request = (time, kept)
        return next
    }
}
