package import Testing

// The compiler takes 2 ms for a call of these functions, of which there are 15,000, and 20 ms for the macros `#expect` and
// `#require`. Those remain for thrown errors, for comparisons like `<`, where a location is passed on, and for processes that
// exit.

/// Records an issue that shows both values if they are not equal.
package func expect<Value: Equatable>(
    _ value: Value, equals expected: Value, _ comment: @autoclosure () -> Comment? = nil,
    fileID: String = #fileID, filePath: String = #filePath, line: Int = #line, column: Int = #column
) {
    if value == expected { return }
    record(
        "\(String(reflecting: value)) is not \(String(reflecting: expected))", comment(), fileID, filePath, line, column
    )
}

/// Records an issue that shows the elements if there are any.
package func expect(
    empty value: some Collection, _ comment: @autoclosure () -> Comment? = nil,
    fileID: String = #fileID, filePath: String = #filePath, line: Int = #line, column: Int = #column
) {
    if value.isEmpty { return }
    record("\(String(reflecting: value)) is not empty", comment(), fileID, filePath, line, column)
}

/// Records an issue if a condition is false.
package func expect(
    _ condition: Bool, _ comment: @autoclosure () -> Comment? = nil,
    fileID: String = #fileID, filePath: String = #filePath, line: Int = #line, column: Int = #column
) {
    if condition { return }
    record("the condition is false", comment(), fileID, filePath, line, column)
}

/// A value that exists; otherwise this throws an error, which ends the test.
package func require<Value>(
    _ value: Value?, _ comment: @autoclosure () -> Comment? = nil,
    fileID: String = #fileID, filePath: String = #filePath, line: Int = #line, column: Int = #column
) throws -> Value {
    if let value { return value }
    record("there is no value", comment(), fileID, filePath, line, column)
    throw RequirementError()
}

/// Throws an error, which ends the test, if a condition is false.
package func require(
    _ condition: Bool, _ comment: @autoclosure () -> Comment? = nil,
    fileID: String = #fileID, filePath: String = #filePath, line: Int = #line, column: Int = #column
) throws {
    if condition { return }
    record("the condition is false", comment(), fileID, filePath, line, column)
    throw RequirementError()
}

/// A value that a test requires does not exist. The issue before it has the place.
private struct RequirementError: Error {}

private func record(
    _ what: String, _ comment: Comment?, _ fileID: String, _ filePath: String, _ line: Int, _ column: Int
) {
    let location = SourceLocation(fileID: fileID, filePath: filePath, line: line, column: column)
    Issue.record("\(what)\(comment.map { ": \($0.rawValue)" } ?? "")", sourceLocation: location)
}
