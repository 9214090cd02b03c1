/// A type that holds secrets in plain text, directly or indirectly, and is never printed: interpolating, describing,
/// dumping or reflecting a value shows only the name of its type.
///
/// Libraries print values that are passed to them: swift-service-lifecycle logs its services with all their properties.
public protocol Unprintable: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Unprintable {
    /// The name of the type.
    public var description: String { "\(Self.self)" }
    /// The name of the type.
    public var debugDescription: String { "\(Self.self)" }
    /// Has no children.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
