import CloakroomCore

/// The JSON document that lists a user's sessions: never contains a token or a ticket.
enum SessionListDocument {
    static func make(_ sessions: [SessionSummary], current: SessionID) -> [UInt8] {
        let entries = sessions.map { entry($0, isCurrent: $0.id == current) }
        return Array(#"{"sessions":[\#(entries.joined(separator: ","))]}"#.utf8)
    }

    private static func entry(_ session: SessionSummary, isCurrent: Bool) -> String {
        let times = [
            ("createdAt", session.createdAt), ("lastUsedAt", session.lastUsedAt), ("expiresAt", session.expiresAt),
        ].map { name, time in "\(quoted(name)):\(quoted(SessionDocument.iso8601(time)))" }.joined(separator: ",")
        return #"{"id":"\#(session.id)",\#(times),"address":\#(quoted(session.client.peer)),"#
            + #""userAgent":\#(quoted(session.client.userAgent.name)),"current":\#(isCurrent)}"#
    }

    /// A JSON string literal. The values in a session come from peers and stores and may contain any character.
    private static func quoted(_ text: String) -> String {
        var result = ""
        ProblemDocument.appendJSON(text, to: &result)
        return result
    }
}
