/* What cppcheck cannot know of jansson's loops without its headers. */
#define json_array_foreach(array, index, value)                                                    \
    for (index = 0; index < json_array_size(array) && (value = json_array_get(array, index));      \
         index++)
#define json_object_foreach(object, key, value)                                                    \
    for (key = json_first(object); key && (value = json_object_get(object, key));                  \
         key = json_next(object, key))
#define json_object_foreach_safe(object, spare, key, value)                                        \
    for (spare = NULL, key = json_first(object); key && (value = json_object_get(object, key));    \
         key = json_next(object, key))
