/// The upgrade that a request asks for, if any.
enum RequestedUpgrade: Equatable {
    /// No upgrade.
    case none
    /// A WebSocket by an HTTP/1.1 upgrade (RFC 6455 §4.1).
    case webSocketUpgrade
    /// A WebSocket by an extended CONNECT (RFC 8441 §5).
    case webSocketConnect
    /// An unsupported protocol by an extended CONNECT.
    case unknown

    /// The upgrade requested by an extended CONNECT; ``none`` without one.
    init(connect protocolName: String?) {
        self =
            switch protocolName {
            case nil: .none
            case "websocket"?: .webSocketConnect
            default: .unknown
            }
    }
}
