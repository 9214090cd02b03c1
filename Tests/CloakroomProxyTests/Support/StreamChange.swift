import CloakroomCore
import Testing

/// A change of the configuration while an event stream is open.
struct StreamChange: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let endsStream: Bool
    let make: @Sendable (inout GatewayConfiguration) -> Void

    init(_ description: String, ends endsStream: Bool, _ make: @escaping @Sendable (inout GatewayConfiguration) -> Void)
    {
        testDescription = description
        self.endsStream = endsStream
        self.make = make
    }
}
