/// What else than an answer a request asks for.
enum RequestedUpgrade: Equatable {
    /// Nothing else.
    case none
    /// A WebSocket, by an upgrade in HTTP/1.1 (RFC 6455 §4.1).
    case webSocketUpgrade
    /// A WebSocket, by an extended CONNECT (RFC 8441 §5).
    case webSocketConnect
    /// Something that is not known here, by an extended CONNECT.
    case unknown

    /// What an extended CONNECT asks for; without one, nothing.
    init(connect protocolName: String?) {
        self =
            switch protocolName {
            case nil: .none
            case "websocket"?: .webSocketConnect
            default: .unknown
            }
    }
}
