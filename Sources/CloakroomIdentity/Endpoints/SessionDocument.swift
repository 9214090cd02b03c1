import CloakroomCore
import FoundationEssentials

/// The JSON document about the user and the current session: never contains a token or the ticket.
enum SessionDocument {
    static func make(_ session: Session, idleTimeout: Duration) -> [UInt8] {
        let times =
            #""createdAt":"\#(iso8601(session.createdAt))","expiresAt":"\#(iso8601(session.expiresAt))""#
        let idle = #""idleTimeoutSeconds":\#(idleTimeout.wholeMilliseconds / 1_000)"#
        // The user's document is a valid JSON object; a session cannot be created without one.
        return Array(#"{"user":"#.utf8) + session.user.json + Array(#","session":{\#(times),\#(idle)}}"#.utf8)
    }

    static func iso8601(_ time: Timestamp) -> String {
        Date(timeIntervalSince1970: Double(time.milliseconds) / 1_000).formatted(.iso8601)
    }
}
