import CloakroomCore

/// The JSON document about the user and the current session: never contains a token or the ticket.
enum SessionDocument {
    static func make(_ session: Session, idleTimeout: Duration) -> [UInt8] {
        let (created, expires) = (session.createdAt.wallTime.iso8601, session.expiresAt.wallTime.iso8601)
        let times = #""createdAt":"\#(created)","expiresAt":"\#(expires)""#
        let idle = #""idleTimeoutSeconds":\#(idleTimeout.wholeMilliseconds / 1_000)"#
        // The user's document is a valid JSON object; a session cannot be created without one. That of a provider is
        // what is kept of its claims.
        let user = session.provenance?.claims ?? session.user.json
        return Array(#"{"user":"#.utf8) + user + Array(#","session":{\#(times),\#(idle)}}"#.utf8)
    }
}

/// The JSON document that lists a user's sessions: never contains a token or a ticket. Address and user agent come from
/// peers and stores and may contain any character. Times are not authenticated, so a store can return any.
enum SessionListDocument {
    static func make(_ sessions: [SessionSummary], current: SessionID) -> [UInt8] {
        let entries = sessions.map { entry($0, isCurrent: $0.id == current) }
        return Array(#"{"sessions":[\#(entries.joined(separator: ","))]}"#.utf8)
    }

    private static func entry(_ session: SessionSummary, isCurrent: Bool) -> String {
        let times = [
            ("createdAt", session.createdAt), ("lastUsedAt", session.lastUsedAt), ("expiresAt", session.expiresAt),
        ].map { name, time in "\"\(name)\":\"\(time.wallTime.iso8601)\"" }.joined(separator: ",")
        let app = session.client.app.map { #","app":\#(JSONString.quoted($0))"# } ?? ""
        return #"{"id":"\#(session.id)",\#(times),"address":\#(JSONString.quoted(session.client.peer)),"#
            + #""userAgent":\#(JSONString.quoted(session.client.userAgent.name)),"current":\#(isCurrent),"#
            + #""bound":\#(session.isBound)\#(app)}"#
    }
}
