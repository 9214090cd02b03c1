import CloakroomCore

/// The JSON document about the user and the current session: never contains a token or the ticket.
enum SessionDocument {
    static func make(_ session: Session, idleTimeout: Duration) -> [UInt8] {
        let times =
            #""createdAt":"\#(iso8601(session.createdAt))","expiresAt":"\#(iso8601(session.expiresAt))""#
        let idle = #""idleTimeoutSeconds":\#(idleTimeout.wholeMilliseconds / 1_000)"#
        // The user's document is a valid JSON object; a session cannot be created without one. That of a provider is
        // what is kept of its claims.
        let user = session.provenance?.claims ?? session.user.json
        return Array(#"{"user":"#.utf8) + user + Array(#","session":{\#(times),\#(idle)}}"#.utf8)
    }

    /// A time as clients can parse it: a year has four digits (RFC 3339 §5.6). Times of a record that is listed without
    /// its ticket are not authenticated, so a store can return any.
    static func iso8601(_ time: SessionTime) -> String {
        let milliseconds = min(max(time.milliseconds, firstMillisecond), lastMillisecond)
        let date = CivilDate(secondsSinceEpoch: milliseconds.floorDivided(by: 1_000))
        let parts: [(value: Int, unit: Int, end: Unicode.Scalar)] = [
            (date.year, 1_000, "-"), (date.month, 10, "-"), (date.day, 10, "T"), (date.hour, 10, ":"),
            (date.minute, 10, ":"), (date.second, 10, "Z"),
        ]
        var text: [UInt8] = []
        text.reserveCapacity(20)
        for part in parts {
            var (value, unit) = (part.value, part.unit)
            while unit > 0 {
                text.append(UInt8(ascii: "0") + UInt8(value / unit))
                value %= unit
                unit /= 10
            }
            text.append(UInt8(ascii: part.end))
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// 0001-01-01T00:00:00Z.
    private static let firstMillisecond: Int64 = -62_135_596_800_000
    /// 9999-12-31T23:59:59Z.
    private static let lastMillisecond: Int64 = 253_402_300_799_000
}

/// The JSON document that lists a user's sessions: never contains a token or a ticket. Address and user agent come from
/// peers and stores and may contain any character.
enum SessionListDocument {
    static func make(_ sessions: [SessionSummary], current: SessionID) -> [UInt8] {
        let entries = sessions.map { entry($0, isCurrent: $0.id == current) }
        return Array(#"{"sessions":[\#(entries.joined(separator: ","))]}"#.utf8)
    }

    private static func entry(_ session: SessionSummary, isCurrent: Bool) -> String {
        let times = [
            ("createdAt", session.createdAt), ("lastUsedAt", session.lastUsedAt), ("expiresAt", session.expiresAt),
        ].map { name, time in "\"\(name)\":\"\(SessionDocument.iso8601(time))\"" }.joined(separator: ",")
        return #"{"id":"\#(session.id)",\#(times),"address":\#(JSONString.quoted(session.client.peer)),"#
            + #""userAgent":\#(JSONString.quoted(session.client.userAgent.name)),"current":\#(isCurrent)}"#
    }
}
